-- Finds messages of a queue that no receive would reach in time: at or below the recorded cursor, and either not on the
-- watch list or due there too late. There should never be any. They appear when a sequence or a clock went back, or
-- when a lock is removed by hand. Messages that pgqueue._watch_late_commits will find in the next turn are not
-- included.
create or replace function pgqueue._find_overlooked(queue_id integer)
returns table (
    sequence_number bigint, lane smallint, "position" bigint, locked_until timestamptz, cursor bigint, due timestamptz)
language sql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
    select sequence_number, message.lane, message.position, locked_until, cursor, due
      from pgqueue.queue
     cross join lateral pgqueue._progress(queue.id, queue.lanes) as progress
     cross join lateral (
           select *
             from pgqueue.message
            where message.queue_id = progress.queue_id and message.lane = progress.lane and position <= cursor
           offset 0) as message               -- looked up for each lane: a join may read the whole queue
      left join pgqueue.watch
        on watch.queue_id = message.queue_id and watch.lane = message.lane and watch.position = message.position
     where queue.id = _find_overlooked.queue_id
       and coalesce(due, 'infinity') > greatest(locked_until, pgqueue.clock()) + interval '1 second'
       and (due is not null or not exists (
           select
             from unnest(awaited, awaited_above) as late (xid, above)
            where above < message.position and xid not in (select pg_snapshot_xip(pg_current_snapshot()))));
$$;
