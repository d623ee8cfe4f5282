-- Returns the highest number above `above` that is in use in a queue, as a sequence number or as a position; null when there is
-- none. Reads only what indexes have above that number, where the caller sets enable_seqscan, enable_bitmapscan and enable_sort
-- off: a function without settings of its own becomes part of a query over many queues.
create or replace function pgqueue._highest_number_in_use(queue pgqueue.queue, above bigint)
returns setof bigint
language sql stable
as $$
    -- fresh lane + 999 is the lane of deferred messages, 2000 that of sessions
    select greatest(
        (select max(number)
           from (select unnest(queue.lanes) union all select unnest(queue.fresh_lanes) + 999 union all select 2000) as known (lane)
          cross join lateral (
                select max(position) as number from pgqueue.message where queue_id = queue.id and lane = known.lane and position > above) as last),
        (select sequence_number
           from pgqueue.message
          where queue_id = queue.id and lane % 2 = 0 and sequence_number > above
          order by sequence_number desc
          limit 1),
        (select sequence_number
           from pgqueue.scheduled_message
          where queue_id = queue.id and sequence_number > above
          order by sequence_number desc
          limit 1),
        (select sequence_number
           from pgqueue.dead_letter
          where queue_id = queue.id and sequence_number > above
          order by sequence_number desc
          limit 1),
        (select position
           from pgqueue.dead_letter
          where queue_id::bigint = queue.id and position > above
          order by position desc
          limit 1));
$$;
