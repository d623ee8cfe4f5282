-- Sets the time until which locked rows are locked. A row whose watch entry is due later than that becomes due at that
-- time.
create or replace function pgqueue._extend_locks(places tid[], until timestamptz)
returns void
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    late tid[];
begin
    with prolonged as materialized (
        update pgqueue.message set locked_until = until where ctid = any (places) returning queue_id, lane, position)
    select array_agg(place) into late
      from prolonged
     cross join lateral (                                     -- one by one: a join may read the watch list through
           select ctid as place
             from pgqueue.watch
            where watch.queue_id = prolonged.queue_id and watch.lane = prolonged.lane and watch.position = prolonged.position
              and watch.due > until
            limit 1
              for update) as entry;
    if late is not null then
        update pgqueue.watch
           set due = greatest(until, pgqueue.clock())        -- not before: see pgqueue._pass_due_times
         where ctid = any (late) and due > until;
    end if;
end
$$;
