-- Removes a worker from pgqueue.workers: one of the caller's role, as a worker does at its end; an administrator may remove any.
-- One that is alive after all registers again within seconds.
-- Returns  whether it was removed.
create or replace function pgqueue.remove_worker(worker uuid)
returns boolean
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    delete from pgqueue.registered_worker
     where id = remove_worker.worker
       and (role = pgqueue._caller() or pg_has_role(pgqueue._caller(), current_user, 'usage') or pgqueue._is_member('{pgqueue_admin}'));
    if not found then
        return false;
    end if;
    delete from pgqueue.worker
     where id = remove_worker.worker
       and beat = (select beat from pgqueue.worker where id = remove_worker.worker order by beat desc limit 1);
    return true;
end
$$;
