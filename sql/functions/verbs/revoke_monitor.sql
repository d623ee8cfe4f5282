-- Takes back what pgqueue.grant_monitor has given.
-- Raises  PQ007 invalid argument, 42501 access denied.
create or replace function pgqueue.revoke_monitor(role text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_grant(role);
    execute format('revoke pgqueue_monitor from %I', role);
end
$$;
