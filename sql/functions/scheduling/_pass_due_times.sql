-- Moves the time from which on the scheduled messages of a queue are looked for, or those on the watch list, or the
-- sessions that wait, at most once a second: to the first that is there, and at most to the horizon. Otherwise each
-- turn would read what was due before and is gone. If the clock went back, everything is looked through again, and
-- sessions that would wait for the time of before need not.
--
-- It is proved as cursors are, by the clock: a transaction that writes when one of them is due takes an id before it
-- reads the clock, and writes no time before that, or only a later time than the row has, which is visible meanwhile.
-- See docs/engine.md.
create or replace function pgqueue._pass_due_times(queue_id integer, kind text default 'MESSAGE')
returns void
language plpgsql
as $$
#variable_conflict use_column
declare
    moment   timestamptz := pgqueue.clock();
    next_xid xid8;
    was      pgqueue.scheduled_progress;
    open     xid8[];
    late     xid8[];
    reached  timestamptz;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return;                                              -- an old snapshot proves nothing
    end if;
    select held.* into was
      from pgqueue._scheduled_progress(_pass_due_times.queue_id) as newest
     cross join lateral (
           select *
             from pgqueue.scheduled_progress
            where queue_id = newest.queue_id and kind = newest.kind and turn = newest.turn
              for update skip locked) as held
     where newest.kind = _pass_due_times.kind;
    if not found
       or was.horizon > moment - interval '1 second' / (case was.kind when 'SESSION' then 50 else 1 end) and was.horizon <= pgqueue.clock() then
        return;
    end if;
    next_xid := pgqueue._next_xid();                         -- above the ids of all who have read the clock before
    open := array(select pg_snapshot_xip(pg_current_snapshot()));
    select least(was.due_from, min(since) filter (where xid <> all (open))),
           coalesce(array_agg(xid) filter (where xid = any (open)), '{}'),
           coalesce(array_agg(since) filter (where xid = any (open)), '{}')
      into was.due_from, was.awaited, was.awaited_from
      from unnest(was.awaited, was.awaited_from) as late (xid, since);
    if was.horizon > pgqueue.clock() then
        was.due_from := '-infinity';
        was.horizon  := '-infinity';
        if was.kind = 'SESSION' then
            perform pgqueue._hasten_sessions(was.queue_id);
        end if;
    end if;
    reached := least(was.horizon, case was.kind
        when 'MESSAGE' then
            (select scheduled_enqueue_time
               from pgqueue.scheduled_message
              where queue_id = was.queue_id and scheduled_enqueue_time >= was.due_from
              order by scheduled_enqueue_time
              limit 1)
        when 'WATCH' then
            (select due from pgqueue.watch where queue_id = was.queue_id and due >= was.due_from order by due limit 1)
        when 'SESSION' then
            (select available_at
               from pgqueue.waiting_session
              where queue_id = was.queue_id and available_at >= was.due_from
              order by available_at
              limit 1) end);
    if reached > was.due_from then
        late             := array(select xid from unnest(open) as xid where xid < was.horizon_xid and xid <> all (was.awaited));
        was.awaited      := was.awaited || late;
        was.awaited_from := was.awaited_from || array_fill(was.due_from, array[cardinality(late)]);
    end if;
    update pgqueue.scheduled_progress
       set turn         = turn + 1,
           due_from     = greatest(was.due_from, reached),
           horizon      = moment,
           horizon_xid  = next_xid,
           awaited      = was.awaited,
           awaited_from = was.awaited_from
     where queue_id = was.queue_id and kind = was.kind and turn = was.turn;
end
$$;
