-- Fires a schedule that is due and whose row the caller has locked: sends a message for each due time that has come, or
-- skips it as `catch_up` requires, and moves on, in one transaction. It does not wait for a sender that holds the id of the
-- message in an open transaction.
-- Returns  how many messages were sent.
-- Raises   what pgqueue.send raises, and 55P03 when it would have to wait; see pgqueue._fire_schedules.
-- Locks    what pgqueue.send locks; waits a tenth of a second for others.
create or replace function pgqueue._fire_schedule(due pgqueue.schedule, moment timestamptz)
returns integer
language plpgsql
set lock_timeout = '100ms'
as $$
declare
    passed timestamptz[] := pgqueue._passed_due_times(due, moment);
    latest timestamptz   := passed[cardinality(passed)];
    fired  timestamptz[] := array(
        select due_time
          from unnest(passed) as due_time
         where due.catch_up = 'all'
            or due_time > moment - interval '10 seconds'
            or due_time = latest and (due.catch_up = 'last' or due_time > moment - interval '1 minute')
         order by due_time);
begin
    perform pgqueue._send_recurring(due, fired);
    due.passed_until := latest;
    due.last_due     := coalesce(fired[cardinality(fired)], due.last_due);
    due.last_error   := null;
    perform pgqueue._save_schedule(due, due.next_due || due.later);
    return cardinality(fired);
end
$$;
