-- Finds dead letters and deferred messages of a queue before the place at which these begin; see pgqueue._pass_front. There should
-- never be any. They appear when a table is changed by hand or restored by itself.
create or replace function pgqueue._find_before_front(queue_id integer)
returns table (kind text, sequence_number bigint)
language sql stable
set enable_seqscan = off
set enable_bitmapscan = off
as $$
    select 'DEAD_LETTERED', sequence_number
      from pgqueue._front(_find_before_front.queue_id, 'DEAD_LETTERED') as front
      join pgqueue.dead_letter on position <= reached and sequence_number < first_number
     where queue_id = _find_before_front.queue_id
     union all
    select 'DEFERRED', sequence_number
      from pgqueue._front(_find_before_front.queue_id, 'DEFERRED') as front
      join pgqueue.message on lane between 800 and 1200 and position <= reached
     where queue_id = _find_before_front.queue_id;
$$;
