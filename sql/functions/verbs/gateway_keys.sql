-- Lists the keys of the gateway: which role each connects as, and the salt that it is derived from.
-- Returns  one row per key, ordered by name.
-- Raises   42501 access denied.
create or replace function pgqueue.gateway_keys()
returns table (name text, role text, salt bytea, created_at timestamptz)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgqueue._check_admin();
    return query select name, role, salt, created_at from pgqueue.gateway_key order by name;
end
$$;
