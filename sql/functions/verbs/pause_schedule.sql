-- Pauses a schedule: it sends nothing until pgqueue.resume_schedule.
-- Raises  PQ030 unknown schedule.
-- Locks   the schedule; waits for a transaction that is firing it.
create or replace function pgqueue.pause_schedule(schedule text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    known pgqueue.schedule;
begin
    perform pgqueue._check_admin();
    known := pgqueue._find_schedule(schedule);
    update pgqueue.schedule set is_paused = true, fire_at = null where id = known.id;
end
$$;
