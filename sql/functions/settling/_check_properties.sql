-- Checks that properties are a JSON object; null means none.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_properties(properties jsonb)
returns void
language plpgsql
as $$
begin
    if jsonb_typeof(properties) <> 'object' then
        perform pgqueue._refuse_argument('properties', 'a JSON object', properties::text);
    end if;
end
$$;
