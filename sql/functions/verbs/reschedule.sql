-- Gives a scheduled message another time. A message that was abandoned with a delay counts as scheduled, too, for those who
-- may also receive from the queue: it was delivered, and is no longer its sender's. Its time to live begins with its time.
-- Raises   PQ002 unknown queue; PQ006 message not found, when the message is not scheduled, or no longer; PQ007 invalid argument.
-- Locks    the message, until the transaction ends; waits for an open transaction that cancels or activates it.
create or replace function pgqueue.reschedule(queue text, sequence_number bigint, at timestamptz)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue, 'SEND');
    place  tid;
begin
    if at is null or not isfinite(at) then
        perform pgqueue._refuse_argument('at', 'a time', at::text);
    end if;
    select ctid into place
      from pgqueue.scheduled_message
     where queue_id = source.id and sequence_number between reschedule.sequence_number and reschedule.sequence_number
       and (pgqueue._is_sent_for_later(lane) or pgqueue._may_receive(source.receivers))
     order by sequence_number                                 -- by the index in that order, whatever the statistics
       for update;                                            -- a transaction id, before the clock is read: see pgqueue._pass_due_times
    update pgqueue.scheduled_message
       set scheduled_enqueue_time = greatest(at, pgqueue.clock()),
           expires_at = greatest(at, pgqueue.clock()) + time_to_live
     where ctid = place;
    if not found then
        perform pgqueue._refuse_unknown_message(source, 'scheduled', reschedule.sequence_number);
    end if;
end
$$;
