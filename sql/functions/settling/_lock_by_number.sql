-- Locks    the messages with these numbers until the transaction ends, but dead letters. Skips those that open
--          transactions hold, and those that a receiver has locked, unless `even_locked`. A message may come back, be
--          postponed or become due meanwhile: each kind of place is looked at after the one from where messages get
--          there, with a new snapshot.
-- Returns  the places of the messages, and those of scheduled ones.
create or replace function pgqueue._lock_by_number(
    queue pgqueue.queue, sequence_numbers bigint[], even_locked boolean, out places tid[], out scheduled tid[])
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
    wanted bigint[]    := array(select distinct number from unnest(sequence_numbers) as number where number is not null order by number);
begin
    scheduled := '{}';
    places := array(
        select place
          from unnest(wanted) as number
         cross join unnest(queue.fresh_lanes) as fresh (lane)
         cross join lateral (
               select ctid as place
                 from pgqueue.message
                where queue_id = queue.id and message.lane = fresh.lane and position = number
                  and (even_locked or not pgqueue._is_locked(message, queue.requires_session, moment))
                limit 1
                  for update skip locked) as held);
    for turn in 1 .. 2 loop
        exit when cardinality(places) + cardinality(scheduled) >= cardinality(wanted);
        places := array(
            select place from unnest(places) as place
             union
            select place
              from unnest(wanted) as number
             cross join lateral (
                   select ctid as place
                     from pgqueue.message
                    where queue_id = queue.id and lane % 2 = 0 and sequence_number between number and number
                      and (even_locked or not pgqueue._is_locked(message, queue.requires_session, moment))
                    order by sequence_number             -- by the index in that order, whatever the statistics
                      for update skip locked) as held);
        exit when turn = 2 or cardinality(places) >= cardinality(wanted);
        scheduled := array(
            select place
              from unnest(wanted) as number
             cross join lateral (
                   select ctid as place
                     from pgqueue.scheduled_message
                    where queue_id = queue.id and sequence_number between number and number
                    order by sequence_number             -- by the index in that order, whatever the statistics
                      for update skip locked) as held);
    end loop;
    if queue.requires_session and not even_locked then
        places := pgqueue._unheld_in_sessions(places);
    end if;
end
$$;
