-- Drops a key of the gateway. Gateways refuse it within a minute, and end the connections that use it.
-- Raises  PQ007 invalid argument, 42501 access denied.
create or replace function pgqueue.drop_gateway_key(name text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    perform pgqueue._check_admin();
    delete from pgqueue.gateway_key as dropped where dropped.name = drop_gateway_key.name;
    if not found then
        perform pgqueue._refuse_argument('the name of a key', 'one of pgqueue.gateway_keys()', quote_nullable(name));
    end if;
end
$$;
