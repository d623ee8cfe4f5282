-- As pgqueue._lock_proven, but skips rows that an open transaction holds instead of waiting for it.
-- Returns  the ctids of the rows.
create or replace function pgqueue._lock_unheld(queue pgqueue.queue, sequence_numbers bigint[], lock_tokens uuid[])
returns tid[]
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
    return array(
        select place
          from pgqueue._find_by_token(queue, sequence_numbers, lock_tokens) as found
         cross join lateral (                                 -- one by one: a join may read the table through
               select ctid as place
                 from pgqueue.message
                where queue_id = found.queue_id and lane = found.lane and position = found.position
                  and lock_token = found.lock_token
                limit 1
                  for update skip locked) as held);
end
$$;
