-- Returns the deferred messages of a queue, by lane and position. A plain query, so that it is inlined.
create or replace function pgqueue._deferred_messages(queue_id integer)
returns setof pgqueue.message
language sql stable
as $$
    select deferred.*
      from (select coalesce(max(known.reached), 0) as reached
              from pgqueue._front(_deferred_messages.queue_id, 'DEFERRED') as known) as front
     cross join lateral (
           select unnest(lanes) as lane from pgqueue.queue as known where known.id = _deferred_messages.queue_id) as opened
     cross join lateral (
           select *
             from pgqueue.message
            where message.queue_id = _deferred_messages.queue_id and message.lane = opened.lane + 999
              and message.position > front.reached
            order by message.position
            limit (select null::bigint)) as deferred          -- no limit, but the planner takes the order from the index
     where opened.lane % 2 <> 0;
$$;
