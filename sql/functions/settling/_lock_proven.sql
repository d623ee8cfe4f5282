-- The fence: finds the messages whose locks are proved by their tokens, and locks their rows until the transaction
-- ends. Every settlement settles what this function returns. A fresh message is found at its number; a redelivered one, or
-- one of a session, through the index of redelivered messages, number by number, in their order: no statistics make the
-- planner prefer another index. In a queue that requires sessions, the lock of the session is proved, too.
-- Returns  the ctids of the rows, and which of the given locks they prove; a lost lock is in neither.
-- Raises   PQ007 invalid argument.
create or replace function pgqueue._lock_proven(
    queue pgqueue.queue, sequence_numbers bigint[], lock_tokens uuid[], out places tid[], out proven bigint[])
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    more record;
begin
    perform pgqueue._check_locks(sequence_numbers, lock_tokens);
    places := '{}';
    proven := '{}';
    if not (queue.requires_session or queue.fair) then
        select coalesce(array_agg(place), '{}'), coalesce(array_agg(nth), '{}') into places, proven
          from (select message.ctid as place, nth
                  from pgqueue.message
                  join unnest(sequence_numbers, lock_tokens) with ordinality as lock (number, token, nth)
                    on position = number and lock_token = token
                 where queue_id = queue.id and lane = any (queue.fresh_lanes) and position = any (sequence_numbers)
                   for update of message) as fresh;
    end if;
    if cardinality(proven) < cardinality(sequence_numbers) then
        select array_agg(place) as places, array_agg(nth) as proven into more
          from (select * from unnest(sequence_numbers, lock_tokens) with ordinality as given (number, token, nth) order by number) as lock
         cross join lateral (
               select ctid as place
                 from pgqueue.message
                where queue_id = queue.id and lane % 2 = 0 and sequence_number between number and number and lock_token = token
                order by sequence_number
                  for update) as returned;
        places := places || more.places;
        proven := proven || more.proven;
    end if;
    if queue.requires_session then
        select * into places, proven from pgqueue._prove_sessions(places, proven);
    end if;
end
$$;
