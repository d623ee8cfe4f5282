-- Returns the messages of a lane from a position on, in order. Below the cursor, and below what awaited transactions may have
-- sent, all messages are consumed but those on the watch list: these are looked up one by one, so it reads none of the rows that
-- died there. Messages that pgqueue._find_overlooked finds are missing. A plain query, so that it is inlined.
create or replace function pgqueue._lane_messages(progress pgqueue.progress, from_position bigint)
returns setof pgqueue.message
language sql stable
begin atomic
   (select watched.*
      from pgqueue.watch
     cross join lateral (
           select *
             from pgqueue.message
            where message.queue_id = watch.queue_id and message.lane = watch.lane and message.position = watch.position
            limit 1) as watched
     where watch.queue_id = (progress).queue_id and watch.lane = (progress).lane and watch.position >= _lane_messages.from_position
       and watch.position <= least((progress).cursor, (select min(above) from unnest((progress).awaited_above) as above))
     order by watch.position
     limit (select null::bigint))                             -- no limit, but the planner takes the order from the index
     union all
   (select *
      from pgqueue.message
     where message.queue_id = (progress).queue_id and message.lane = (progress).lane and message.position >= _lane_messages.from_position
       and message.position > least((progress).cursor, (select min(above) from unnest((progress).awaited_above) as above))
     order by message.position
     limit (select null::bigint));
end;
