-- Returns where a session's scan of each lane begins, in the order of the queue's lanes, for its next second.
--
-- The session's own cursors are in a setting, pgqueue.scan_<queue id>, with the second in which they were loaded: a
-- hint, which is merged with the recorded cursors once a second. The further cursor wins, unless a free message stands
-- right behind the recorded one: the session's may have passed it while a transaction held it. A hint from before a
-- restore, when the sequence stood higher, is dropped.
create or replace function pgqueue._load_scan(queue pgqueue.queue, scan bigint[])
returns bigint[]
language plpgsql
set enable_bitmapscan = off
as $$
begin
    if cardinality(scan) is distinct from cardinality(queue.lanes) + 1
       or (select max(cursor) from unnest(scan[2:]) as cursor) > (select last_value from pgqueue.sequence_number) then
        scan := array_fill(0::bigint, array[cardinality(queue.lanes) + 1]);
        perform set_config('pgqueue.horizon_' || queue.id, '', false);
    end if;
    scan := extract(epoch from pgqueue.clock())::bigint || array(
        select case when next.is_free then progress.cursor else greatest(known.cursor, progress.cursor) end
          from unnest(queue.lanes, scan[2:]) with ordinality as known (lane, cursor, nth)
          left join lateral (                          -- see pgqueue._progress
               select cursor from pgqueue.progress where queue_id = queue.id and lane = known.lane order by turn desc limit 1
               ) as progress on true
          left join lateral (
               select locked_until is null as is_free
                 from pgqueue.message
                where message.queue_id = queue.id and message.lane = known.lane and message.position = progress.cursor + 1
                limit 1) as next on known.cursor > progress.cursor       -- looked up by itself: a join may read the whole lane
         order by nth);
    perform set_config('pgqueue.scan_' || queue.id, scan::text, false);
    return scan;
end
$$;
