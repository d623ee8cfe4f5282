-- Checks that the caller may see counts and ages of all queues.
-- Raises  42501 access denied.
create or replace function pgqueue._check_monitor()
returns void
language plpgsql
as $$
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    if not pgqueue._may_monitor() then
        perform pgqueue._refuse_access('MONITOR');
    end if;
end
$$;
