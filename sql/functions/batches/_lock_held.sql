-- Locks the final message of a batch, until the transaction ends; waits for an open transaction that cancels or reschedules it.
-- A batch takes its messages when it is created: from then on their time is later, by a number of microseconds from its id, so that no other
-- batch takes them. Those of batches that an earlier version created have the same time as before.
-- Returns  its place; nothing when it does not wait, or no longer.
create or replace function pgqueue._lock_held(queue_id integer, number bigint, batch uuid default null)
returns tid[]
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
begin
    return array(
        select ctid
          from pgqueue.scheduled_message
         where queue_id = _lock_held.queue_id and sequence_number between number and number
           and scheduled_enqueue_time in (
               pgqueue.batch_end(), pgqueue.batch_end() + interval '1 microsecond' * (1 + ('x' || left(batch::text, 8))::bit(32)::bigint))
         order by sequence_number                             -- by the index in that order, whatever the statistics
           for update);
end
$$;
