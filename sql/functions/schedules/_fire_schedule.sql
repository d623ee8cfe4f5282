-- Fires a schedule that is due and whose row the caller has locked: sends a message for each due time that has come, or
-- skips it as `catch_up` says, and moves on, in one transaction. When the queue refuses the message, the schedule keeps
-- the error, and is fired again ten seconds later; so it is when an open transaction holds the id of the message, because
-- whoever fires a schedule does not wait for a sender.
-- Returns  how many messages were sent.
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
    begin
        perform pgqueue._send_recurring(due, fired);
    exception when sqlstate 'PQ004' or sqlstate 'PQ005' or sqlstate 'PQ007' or sqlstate 'PQ008' or lock_not_available then
        update pgqueue.schedule
           set fire_at    = moment + interval '10 seconds',
               last_error = case when sqlstate = '55P03' then 'an open transaction sends a message with the same id, or changes the queue'
                                 else sqlerrm end
         where id = due.id;
        return 0;
    end;
    due.passed_until := latest;
    due.last_due     := coalesce(fired[cardinality(fired)], due.last_due);
    due.last_error   := null;
    perform pgqueue._save_schedule(due, due.next_due || due.later);
    return cardinality(fired);
end
$$;
