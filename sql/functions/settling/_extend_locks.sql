-- Sets the time until which locked rows are locked. A row whose watch entry is due later than that becomes due at that
-- time.
create or replace function pgqueue._extend_locks(places tid[], until timestamptz)
returns void
language sql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
    with prolonged as (
        update pgqueue.message set locked_until = until where ctid = any (places) returning queue_id, lane, position)
    update pgqueue.watch
       set due = greatest(until, pgqueue.clock())            -- not before: see pgqueue._pass_due_times
      from prolonged
     where watch.queue_id = prolonged.queue_id and watch.lane = prolonged.lane and watch.position = prolonged.position
       and watch.due > until;
$$;
