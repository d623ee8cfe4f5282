-- Moves the place at which the dead letters, or the deferred messages, of a queue begin, at most once a second: past
-- those that are gone, and at most to the horizon. Otherwise all who read them in order would read what is gone. It is
-- proved as cursors are: a transaction that dead-letters or defers a message takes an id before it draws the position.
-- See docs/engine.md, and pgqueue._front for transactions that are awaited.
create or replace function pgqueue._pass_front(queue_id integer, kind text)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    moment      timestamptz := pgqueue.clock();
    last_number bigint;
    next_xid    xid8;
    was         pgqueue.front;
    open        xid8[];
    late        xid8[];
    passed      bigint;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return;                                              -- an old snapshot proves nothing
    end if;
    if not exists (
        select
          from (select horizon_taken_at
                  from pgqueue.front
                 where queue_id = _pass_front.queue_id and kind = _pass_front.kind
                 order by turn desc
                 limit 1) as newest
         where horizon_taken_at <= moment - interval '1 second' or horizon_taken_at > moment)
    then
        return;
    end if;
    last_number := pgqueue._last_number_drawn();
    next_xid    := pgqueue._next_xid();                      -- above the ids of all holders of numbers up to the last
    select held.* into was
      from (select turn
              from pgqueue.front
             where queue_id = _pass_front.queue_id and kind = _pass_front.kind
             order by turn desc
             limit 1) as newest
     cross join lateral (
           select *
             from pgqueue.front
            where queue_id = _pass_front.queue_id and kind = _pass_front.kind and turn = newest.turn
              and (horizon_taken_at <= moment - interval '1 second' or horizon_taken_at > moment)
              for update skip locked) as held;
    if not found then
        return;
    end if;
    if was.horizon > pgqueue._last_number_drawn() then       -- read again: the row may be newer than last_number
        perform pgqueue._repair_sequence();
        return;
    end if;
    open := array(select pg_snapshot_xip(pg_current_snapshot()));
    select least(was.reached, min(above) filter (where xid <> all (open))),
           coalesce(array_agg(xid) filter (where xid = any (open)), '{}'),
           coalesce(array_agg(above) filter (where xid = any (open)), '{}')
      into was.reached, was.awaited, was.awaited_above
      from unnest(was.awaited, was.awaited_above) as late (xid, above);
    if kind = 'DEAD_LETTERED' then
        passed           := was.horizon;
        was.first_number := case when passed > 0 then coalesce(
            (select sequence_number from pgqueue._dead_letters_from(was.queue_id, 0) limit 1), 9223372036854775807) else 0 end;
    else
        passed := greatest(was.reached, least(
            was.horizon,
            (select min(position) - 1
               from (select unnest(lanes) as lane from pgqueue.queue where id = was.queue_id) as opened
              cross join lateral (
                    select position
                      from pgqueue.message
                     where queue_id = was.queue_id and message.lane = opened.lane + 999 and position > was.reached
                     order by position
                     limit 1) as first
              where opened.lane % 2 <> 0)));
    end if;
    if passed > was.reached then
        late              := array(select xid from unnest(open) as xid where xid < was.horizon_xid and xid <> all (was.awaited));
        was.awaited       := was.awaited || late;
        was.awaited_above := was.awaited_above || array_fill(was.reached, array[cardinality(late)]);
    end if;
    update pgqueue.front
       set turn             = was.turn + 1,
           reached          = passed,
           first_number     = was.first_number,
           horizon          = last_number,
           horizon_xid      = next_xid,
           horizon_taken_at = moment,
           awaited          = was.awaited,
           awaited_above    = was.awaited_above
     where queue_id = _pass_front.queue_id and kind = _pass_front.kind and turn = was.turn;
end
$$;
