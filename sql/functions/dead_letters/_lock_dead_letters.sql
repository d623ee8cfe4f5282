-- The fence of dead letters; see pgqueue._lock_proven. A renewal skips rows that an open transaction holds, usually
-- that of their owner, instead of waiting for it; their locks count as proven all the same.
-- Returns  the ctids of the rows, which are locked until the transaction ends, and which of the given locks are proven.
-- Raises   PQ007 invalid argument.
create or replace function pgqueue._lock_dead_letters(
    queue pgqueue.queue, sequence_numbers bigint[], lock_tokens uuid[], renewal boolean, out places tid[], out proven bigint[])
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_bitmapscan = off
set enable_nestloop = off
as $$
#variable_conflict use_column
begin
    perform pgqueue._check_locks(sequence_numbers, lock_tokens);
    if renewal then
        places := array(
            select dead_letter.ctid
              from pgqueue.dead_letter
              join unnest(sequence_numbers, lock_tokens) as lock (number, token) on sequence_number = number and lock_token = token
             where queue_id = queue.id and sequence_number = any (sequence_numbers)
               for update of dead_letter skip locked);
    else
        places := array(
            select dead_letter.ctid
              from pgqueue.dead_letter
              join unnest(sequence_numbers, lock_tokens) as lock (number, token) on sequence_number = number and lock_token = token
             where queue_id = queue.id and sequence_number = any (sequence_numbers)
               for update of dead_letter);
    end if;
    proven := array(                     -- only now: a message that was received again meanwhile is not proven
        select nth
          from pgqueue.dead_letter
          join unnest(sequence_numbers, lock_tokens) with ordinality as lock (number, token, nth)
            on sequence_number = number and lock_token = token
         where queue_id = queue.id and sequence_number = any (sequence_numbers));
end
$$;
