-- Checks that an error is a JSON object of texts called `type`, `text` and `traceback`, of which `traceback` and `text` may
-- be missing; null means none.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_error(error jsonb)
returns void
language plpgsql
as $$
begin
    if jsonb_typeof(error) <> 'object' then
        perform pgqueue._refuse_argument('error', 'a JSON object', error::text);
    end if;
    if error is not null
       and (not error ? 'type'
            or exists (select from jsonb_each(error) as part
                        where part.key not in ('type', 'text', 'traceback')
                           or jsonb_typeof(part.value) <> 'string' and (part.key = 'type' or part.value <> 'null'))) then
        perform pgqueue._refuse_argument('error', 'an object of texts: type, text and traceback, of which type is needed', error::text);
    end if;
end
$$;
