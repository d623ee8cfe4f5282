-- Returns the highest number in use in a queue, as a sequence number or as a position. Reads only the ends of indexes.
create or replace function pgqueue._highest_number_in_use(queue pgqueue.queue)
returns bigint
language sql stable
set enable_seqscan = off
set enable_bitmapscan = off
as $$
    -- fresh lane + 999 is the lane of deferred messages, 2000 that of sessions
    select greatest(
        (select max(number)
           from (select unnest(queue.lanes) union all select unnest(queue.fresh_lanes) + 999 union all select 2000) as known (lane)
          cross join lateral (
                select max(position) as number from pgqueue.message where queue_id = queue.id and lane = known.lane) as last),
        (select max(sequence_number) from pgqueue.message where queue_id = queue.id and lane % 2 = 0),
        (select max(sequence_number) from pgqueue.scheduled_message where queue_id = queue.id),
        (select max(sequence_number) from pgqueue.dead_letter where queue_id = queue.id));
$$;
