-- Lets a role see counts and ages of all queues, but no messages: makes it a member of pgqueue_monitor. Roles belong to the server, so
-- this holds in all its databases.
-- Raises  PQ007 invalid argument, 42501 access denied.
create or replace function pgqueue.grant_monitor(role text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_grant(role);
    execute format('grant pgqueue_monitor to %I', role);
end
$$;
