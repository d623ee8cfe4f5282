-- Returns the messages whose locks are proved by these tokens, as they are now, without locking their rows. See
-- pgqueue._lock_proven.
create or replace function pgqueue._find_by_token(queue pgqueue.queue, sequence_numbers bigint[], lock_tokens uuid[])
returns setof pgqueue.message
language plpgsql stable
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = off
set enable_sort = off
as $$
#variable_conflict use_column
begin
    if not (queue.requires_session or queue.fair) then
        return query
            select message.*
              from pgqueue.message
              join unnest(sequence_numbers, lock_tokens) as lock (number, token) on position = number and lock_token = token
             where queue_id = queue.id and lane = any (queue.fresh_lanes) and position = any (sequence_numbers);
    end if;
    return query
        select returned.*
          from unnest(sequence_numbers, lock_tokens) as lock (number, token)
         cross join lateral (
               select *
                 from pgqueue.message
                where queue_id = queue.id and lane % 2 = 0 and sequence_number between number and number and lock_token = token
                order by sequence_number) as returned;
end
$$;
