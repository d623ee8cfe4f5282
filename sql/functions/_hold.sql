-- The fence. Finds the messages whose locks are proved by their tokens and locks their rows until the transaction
-- ends; whoever settles, settles what this returns. A fresh message is found at its number, one that came back
-- through the index of those. Who does not `wait` passes over rows that an open transaction holds.
-- Returns  the places of the rows; a lock that is lost has none.
create or replace function pgqueue._hold(
    queue pgqueue.queue, sequence_numbers bigint[], lock_tokens uuid[], wait boolean default true)
returns tid[]
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = off
as $$
#variable_conflict use_column
declare
    held tid[];
begin
    if not wait then
        return array(
            select message.ctid
              from pgqueue._locks(queue, sequence_numbers, lock_tokens) as found
              join pgqueue.message using (queue_id, lane, position)
             where message.lock_token = found.lock_token
               for update of message skip locked);
    end if;
    held := array(
        select message.ctid
          from pgqueue.message
          join unnest(sequence_numbers, lock_tokens) as lock (number, token) on position = number and lock_token = token
         where queue_id = queue.id and lane = any (queue.fresh_lanes) and position = any (sequence_numbers)
           for update of message);
    if cardinality(held) < cardinality(sequence_numbers) then
        held := held || array(
            select message.ctid
              from pgqueue.message
              join unnest(sequence_numbers, lock_tokens) as lock (number, token) on sequence_number = number and lock_token = token
             where queue_id = queue.id and lane % 2 = 0 and sequence_number = any (sequence_numbers)
               for update of message);
    end if;
    return held;
end
$$;
