-- Gives a scheduled message another time. A message that was abandoned with a delay counts as scheduled, too, for roles that may also receive
-- from the queue: it was delivered, so the right to send does not suffice. Its time to live begins at the new time.
-- Raises   PQ002 unknown queue; PQ006 message not found, when the message is not scheduled, or no longer; PQ007 invalid argument.
-- Locks    the message, until the transaction ends; waits for an open transaction that cancels, activates or replaces it.
create or replace function pgqueue.reschedule(queue text, sequence_number bigint, at timestamptz)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue, 'SEND');
    places tid[];
begin
    if at is null or not isfinite(at) then
        perform pgqueue._refuse_argument('at', 'a time', at::text);
    end if;
    places := pgqueue._lock_scheduled(source, array[reschedule.sequence_number]);
    update pgqueue.scheduled_message
       set scheduled_enqueue_time = greatest(at, pgqueue.clock()),
           expires_at = greatest(at, pgqueue.clock()) + time_to_live
     where ctid = any (places);       -- locked: there is a transaction id before the clock is read; see pgqueue._pass_due_times
    if not found then
        perform pgqueue._refuse_unknown_message(source, 'scheduled', reschedule.sequence_number);
    end if;
    if source.awaited_until > pgqueue.clock() then
        perform pgqueue._notify(source);
    end if;
end
$$;
