-- Adds overlooked messages of a queue to the watch list, at most `max_messages`, so that the next turn finds them; see
-- pgqueue._find_overlooked.
-- Returns  how many were overlooked.
create or replace function pgqueue._repair_watch(queue_id integer, max_messages integer)
returns integer
language sql
set enable_hashjoin = off
set enable_mergejoin = off
as $$
    with overlooked as materialized (
        select lane, position, locked_until as free_at, pg_current_xact_id()         -- before the clock is read: see pgqueue._pass_due_times
          from pgqueue._find_overlooked(queue_id)
         limit max_messages
    ), late as materialized (
        select watch.ctid as place, free_at
          from overlooked
          join pgqueue.watch using (lane, position)
         where watch.queue_id = _repair_watch.queue_id
           for update of watch skip locked
    ), hastened as (
        update pgqueue.watch set due = greatest(free_at, pgqueue.clock()) from late where ctid = place
    ), added as (
        insert into pgqueue.watch (queue_id, lane, position, due)
        select _repair_watch.queue_id, lane, position, greatest(free_at, pgqueue.clock()) from overlooked
            on conflict on constraint watch_pkey do nothing
    )
    select count(*)::integer from overlooked;
$$;
