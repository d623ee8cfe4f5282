-- Drops a schedule. Messages that it has sent stay.
-- Raises  PQ030 unknown schedule.
-- Locks   the schedule; waits for a transaction that is firing it.
create or replace function pgqueue.drop_schedule(schedule text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    known pgqueue.schedule;
begin
    perform pgqueue._check_admin();
    known := pgqueue._find_schedule(schedule);
    delete from pgqueue.schedule where id = known.id;
end
$$;
