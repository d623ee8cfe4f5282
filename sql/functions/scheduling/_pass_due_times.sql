-- Moves the time from which on the scheduled messages of a queue are looked for, at most once a second: to the first message
-- that is there, and at most to the horizon. Otherwise each turn would read what was due before and is gone.
--
-- Whoever schedules a message takes a transaction id before it reads the clock. So nothing new can be due before the horizon,
-- which was read at least a second ago, except from a transaction that was open then and is still open. No such transaction is
-- waited for: it is awaited, and once it is over, messages are looked for again from where they were when it was passed.
--
-- If the clock went back, messages may be due before: everything is looked through again.
create or replace function pgqueue._pass_due_times(queue_id integer)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
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
    select * into was from pgqueue.scheduled_progress where queue_id = _pass_due_times.queue_id for update skip locked;
    if not found or was.horizon > moment - interval '1 second' and was.horizon <= pgqueue.clock() then
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
    end if;
    reached := least(
        was.horizon,
        (select scheduled_enqueue_time
           from pgqueue.scheduled_message
          where queue_id = was.queue_id and scheduled_enqueue_time >= was.due_from
          order by scheduled_enqueue_time
          limit 1));
    if reached > was.due_from then
        late             := array(select xid from unnest(open) as xid where xid < was.horizon_xid and xid <> all (was.awaited));
        was.awaited      := was.awaited || late;
        was.awaited_from := was.awaited_from || array_fill(was.due_from, array[cardinality(late)]);
    end if;
    update pgqueue.scheduled_progress
       set due_from     = greatest(was.due_from, reached),
           horizon      = moment,
           horizon_xid  = next_xid,
           awaited      = was.awaited,
           awaited_from = was.awaited_from
     where queue_id = was.queue_id;
end
$$;
