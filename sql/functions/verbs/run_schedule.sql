-- Sends the message of a schedule now, also while it is paused. Its due times stay as they are.
-- Returns  the sequence number of the message.
-- Raises   PQ030 unknown schedule, and what pgqueue.send raises.
-- Locks    the schedule.
create or replace function pgqueue.run_schedule(schedule text)
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    known pgqueue.schedule;
begin
    perform pgqueue._check_admin();
    known := pgqueue._find_schedule(schedule);
    known.jitter := null;
    return (select number from pgqueue._send_recurring(known, array[pgqueue.clock()]) as number);
end
$$;
