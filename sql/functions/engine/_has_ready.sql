-- Returns whether a message of a queue could be received, if its limits allowed it.
create or replace function pgqueue._has_ready(queue pgqueue.queue)
returns boolean
language sql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
    select exists (
        select
          from pgqueue._progress(queue.id, queue.lanes) as progress
         cross join lateral (
               select
                 from pgqueue.message
                where message.queue_id = progress.queue_id and message.lane = progress.lane and message.position > progress.cursor
                  and (message.locked_until is null or message.locked_until <= pgqueue.clock())
                limit 1) as ready);
$$;
