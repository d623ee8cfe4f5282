-- Finds messages that were delivered as often as their queue allows, and that are not held. It examines the first 1000
-- of each lane, those that are due on the watch list, and 100 deferred ones when everything is looked over
-- (pgqueue._swept_until). Others are dead-lettered by the receive that reaches them.
-- Returns  the messages as they are now; no row is locked.
create or replace function pgqueue._find_over_delivered(queue pgqueue.queue, since timestamptz)
returns setof pgqueue.message
language plpgsql
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
begin
    return query
        select message.*
          from pgqueue._progress(queue.id, queue.lanes) as progress
         cross join lateral (
               select message.*
                 from pgqueue.message
                where message.queue_id = progress.queue_id and message.lane = progress.lane and position > cursor
                order by position
                limit 1000) as message
         where delivery_count >= queue.max_delivery_count and (locked_until is null or locked_until <= moment)
         union all
        select message.*
          from (select *
                  from pgqueue.message
                 where since = '-infinity' and queue_id = queue.id and lane between 800 and 1200
                   and not (queue.requires_session and pgqueue._is_held_in_session(message))
                 order by lane, position
                 limit 100) as message
         where delivery_count >= queue.max_delivery_count and (locked_until is null or locked_until <= moment)
         union all
        select message.*
          from pgqueue._progress(queue.id, queue.lanes) as progress
         cross join lateral (
               select lane, position
                 from pgqueue.watch
                where queue_id = queue.id and lane = progress.lane and due <= moment and position <= cursor
               offset 0) as watch                             -- looked up one by one: a join may read the whole queue
         cross join lateral (
               select *
                 from pgqueue.message
                where message.queue_id = queue.id and message.lane = watch.lane and message.position = watch.position
                limit 1) as message
         where delivery_count >= queue.max_delivery_count and (locked_until is null or locked_until <= moment);
end
$$;
