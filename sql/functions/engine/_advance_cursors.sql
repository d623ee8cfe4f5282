-- Moves the recorded cursor of each lane, at most once a second per queue; whichever session comes first does it. A
-- cursor stops before the first free message, and puts on the watch list what it passes while it is still there. An
-- open transaction below the horizon is not waited for but awaited: its messages are put on the watch list in the first
-- turn after its end. See docs/engine.md.
create or replace function pgqueue._advance_cursors(queue pgqueue.queue)
returns void
language plpgsql
as $$
#variable_conflict use_column
declare
    moment      timestamptz := pgqueue.clock();
    last_number bigint;
    next_xid    xid8;
    was         pgqueue.progress;
    open        xid8[];
    late        xid8[];
    reached     bigint;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return;                                              -- an old snapshot proves nothing
    end if;
    last_number := pgqueue._last_number_drawn();
    next_xid    := pgqueue._next_xid();                      -- above the ids of all holders of numbers up to the last
    for was in
        select held.*
          from pgqueue._progress(queue.id, queue.lanes) as newest
         cross join lateral (
               select *
                 from pgqueue.progress
                where queue_id = newest.queue_id and lane = newest.lane and turn = newest.turn
                  for update skip locked) as held
         where newest.horizon_taken_at <= moment - interval '1 second' or newest.horizon_taken_at > pgqueue.clock()
    loop
        if was.horizon > pgqueue._last_number_drawn() then          -- read again: the row may be newer than last_number
            perform pgqueue._repair_sequence();
            return;
        end if;
        if was.horizon_taken_at > moment + interval '1 second'       -- the clock went back: due times lie in its future
           and pgqueue._repair_watch(queue.id, 5000) = 5000 then
            moment := was.horizon_taken_at;                          -- there is more: let the next turn notice it again
        end if;
        open    := array(select pg_snapshot_xip(pg_current_snapshot()));
        was     := pgqueue._watch_late_commits(was, open);
        reached := pgqueue._watch_passed(was, was.cursor, coalesce(
            (select position - 1                                 -- just before the first free message
               from pgqueue.message
              where queue_id = was.queue_id and lane = was.lane and position > was.cursor and position <= was.horizon
                and locked_until is null
              order by position
              limit 1
                for update skip locked),
            greatest(was.cursor, was.horizon)));
        if reached > was.cursor then
            late              := array(select xid from unnest(open) as xid where xid < was.horizon_xid and xid <> all (was.awaited));
            was.awaited       := was.awaited || late;
            was.awaited_above := was.awaited_above || array_fill(was.cursor, array[cardinality(late)]);
        end if;
        update pgqueue.progress
           set turn             = turn + 1,
               cursor           = reached,
               horizon          = last_number,
               horizon_xid      = next_xid,
               horizon_taken_at = moment,
               awaited          = was.awaited,
               awaited_above    = was.awaited_above
         where queue_id = was.queue_id and lane = was.lane and turn = was.turn;
    end loop;
end
$$;
