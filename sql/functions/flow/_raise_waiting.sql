-- Raises messages of a queue with `priority_ageing`: one that has been in its lane for as many times that long as the next
-- more urgent priority in use is more urgent goes to that priority's lane of redelivered messages. It gets a new position there,
-- as a redelivered message does, and its wait for the next rise begins. The oldest of each lane come first, at most
-- a hundred a turn, so that a backlog does not keep urgent messages waiting.
--
-- Positions are drawn when messages enter a lane. So a message has been in a lane since some time if its position is not above
-- the last number that was drawn then; eight such numbers are kept for each lane while messages wait there. A message
-- rises up to an eighth of its time late.
-- Locks  the messages that rise; skips whatever others hold.
create or replace function pgqueue._raise_waiting(queue pgqueue.queue)
returns void
language plpgsql
as $$
#variable_conflict use_column
declare
    moment    timestamptz := pgqueue.clock();
    old       record;
    known     pgqueue.progress;
    last_mark timestamptz;
    up_to     bigint;
    places    tid[];
begin
    for old in
        select progress.lane, progress.turn, progress.cursor, above.lane as target,
               (pgqueue._priority(progress.lane) - pgqueue._priority(above.lane)) * queue.priority_ageing as wait
          from pgqueue._progress(queue.id, queue.lanes) as progress
         cross join lateral (
               select max(lane) & ~1::smallint as lane from unnest(queue.lanes) as lane where lane < progress.lane & ~1::smallint
               ) as above
         where above.lane is not null
           and exists (
               select
                 from pgqueue.message
                where message.queue_id = progress.queue_id and message.lane = progress.lane and message.position > progress.cursor)
    loop
        select * into known
          from pgqueue.progress
         where queue_id = queue.id and lane = old.lane and turn = old.turn
           for update skip locked;
        continue when not found;
        select max(number) into up_to
          from unnest(known.mark_times, known.mark_numbers) as mark (taken_at, number)
         where taken_at <= moment - old.wait;
        places := array(
            select ctid
              from pgqueue.message
             where queue_id = queue.id and lane = old.lane and position > old.cursor and position <= up_to and locked_until is null
             order by position
             limit 100
               for update skip locked);
        perform pg_current_xact_id();    -- take a transaction id before drawing a number, as in pgqueue.send
        with ordered as materialized (
            select ctid as place from pgqueue.message where ctid = any (places) order by sequence_number
        ), placed as materialized (
            select place, nextval('pgqueue.sequence_number') as position from ordered)
        update pgqueue.message set lane = old.target, position = placed.position from placed where ctid = placed.place;
        last_mark := known.mark_times[cardinality(known.mark_times)];
        if last_mark is null or moment >= last_mark + old.wait / 8 or moment < last_mark then
            update pgqueue.progress
               set (mark_times, mark_numbers) = (
                   select array_agg(taken_at order by taken_at), array_agg(number order by taken_at)
                     from (select taken_at, number
                             from unnest(known.mark_times, known.mark_numbers) as mark (taken_at, number)
                            where taken_at <= moment and number >= coalesce(up_to, 0)
                            union all
                           select moment, pgqueue._last_number_drawn()) as mark)
             where queue_id = queue.id and lane = old.lane and turn = old.turn;
        end if;
    end loop;
end
$$;
