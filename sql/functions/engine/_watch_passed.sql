-- Adds the messages that are still there between two positions of a lane to the watch list, at most 5000.
-- Returns  the position up to which that was done.
create or replace function pgqueue._watch_passed(progress pgqueue.progress, above bigint, up_to bigint)
returns bigint
language sql
set enable_hashjoin = off
set enable_mergejoin = off
as $$
    with passed as materialized (
        select queue_id, lane, position, greatest(locked_until, pgqueue.clock()) as due
          from pgqueue.message
         where queue_id = progress.queue_id and lane = progress.lane
           and message.position > above and message.position <= up_to
           and message.position is distinct from (      -- `not exists` gets a bad plan if watch was never analyzed
               select watch.position
                 from pgqueue.watch
                where watch.queue_id = message.queue_id and watch.lane = message.lane and watch.position >= message.position
                order by watch.position
                limit 1)
         order by message.position
         limit 5000
    ), watched as (
        insert into pgqueue.watch (queue_id, lane, position, due)
        select queue_id, lane, position, due from passed
            on conflict on constraint watch_pkey do nothing
    )
    select case when count(*) < 5000 then up_to else max(position) end from passed;
$$;
