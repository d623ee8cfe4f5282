-- Returns before which time no scheduled message of a queue is due, without a turn: as pgqueue._pass_due_times does, it goes back to
-- where awaited transactions that are over were passed, and to the beginning when the clock went back.
create or replace function pgqueue._earliest_due(queue_id integer)
returns timestamptz
language sql stable
as $$
    select coalesce(
        (select case when horizon <= pgqueue.clock()
                     then least(due_from, (select min(since)
                                             from unnest(awaited, awaited_from) as late (xid, since)
                                            where xid not in (select pg_snapshot_xip(pg_current_snapshot())))) end
           from pgqueue._scheduled_progress(_earliest_due.queue_id)
          where kind = 'MESSAGE'),
        '-infinity');
$$;
