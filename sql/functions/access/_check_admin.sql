-- Checks that the caller may administer pgqueue.
-- Raises  42501 access denied.
create or replace function pgqueue._check_admin(queue text default null, kind text default 'queue')
returns void
language plpgsql
as $$
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    if not pg_has_role(pgqueue._caller(), current_user, 'usage') and not pgqueue._is_member('{pgqueue_admin}') then
        perform pgqueue._refuse_access('ADMIN', queue, kind);
    end if;
end
$$;
