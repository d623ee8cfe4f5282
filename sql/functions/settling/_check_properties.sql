-- Checks that an argument, by default called properties, is a JSON object; null means none.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_properties(properties jsonb, argument text default 'properties')
returns void
language plpgsql
as $$
begin
    if jsonb_typeof(properties) <> 'object' then
        perform pgqueue._refuse_argument(argument, 'a JSON object', properties::text);
    end if;
end
$$;
