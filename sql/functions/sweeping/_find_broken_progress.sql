-- Finds violations in lanes and cursors; see pgqueue.broken_invariants.
create or replace function pgqueue._find_broken_progress()
returns setof text
language sql stable
as $$
    select format('queue %I has the fresh lanes %s among the lanes %s', name, fresh_lanes, lanes)
      from pgqueue.queue
     where lanes is distinct from array(
               select lane
                 from unnest(fresh_lanes) as fresh
                cross join unnest(array[fresh - 1, fresh]::smallint[]) as lane
                order by lane)
     union all
    select format('lane %s of queue %I has no progress', opened, name)
      from pgqueue.queue
     cross join unnest(lanes) as opened
      left join pgqueue.progress on progress.queue_id = queue.id and progress.lane = opened
     where progress.lane is null
     union all
    select format('lane %s of queue %s has its progress %s times', lane, queue_id, count(*))
      from pgqueue.progress
     group by queue_id, lane
    having count(*) > 1
     union all
    select format('the progress of lane %s of queue %s %s', lane, queue_id, broken)
      from pgqueue.progress
     cross join lateral (values
           (cursor > horizon, format('has the cursor %s beyond the horizon %s', cursor, horizon)),
           (horizon > pgqueue._last_number_drawn(), format('has the horizon %s beyond the last number handed out', horizon)),
           (cardinality(awaited) <> cardinality(awaited_above), 'awaits transactions without knowing where'),
           (cursor < any (awaited_above), format('awaits messages above the cursor %s', cursor))
           ) as rule (is_broken, broken)
     where is_broken
     union all
    select format('the front of what is %s in queue %s %s', kind, queue_id, broken)
      from pgqueue.front
     cross join lateral (values
           (reached > horizon, format('has reached %s, beyond the horizon %s', reached, horizon)),
           (horizon > pgqueue._last_number_drawn(), format('has the horizon %s beyond the last number handed out', horizon)),
           (cardinality(awaited) <> cardinality(awaited_above), 'awaits transactions without knowing where')
           ) as rule (is_broken, broken)
     where is_broken
     union all
    select format('%s %s of queue %I is before the front, where no receive looks',
                  case kind when 'DEFERRED' then 'deferred message' else 'dead letter' end, sequence_number, name)
      from pgqueue.queue
     cross join lateral pgqueue._find_before_front(queue.id)
     union all
    select format(broken, key, queue_id, due_at, due_from)
      from pgqueue.scheduled_progress
      join (select queue_id, 'MESSAGE' as kind, sequence_number::text as key, scheduled_enqueue_time as due_at,
                   'scheduled message %s of queue %s is due at %s, but messages are looked for from %s on' as broken
              from pgqueue.scheduled_message
             union all
            select queue_id, 'WATCH', position::text, due,
                   'message %s of queue %s is to be checked at %s, but the watch list is looked through from %s on'
              from pgqueue.watch
             union all
            select queue_id, 'SESSION', quote_literal(session_id), available_at,
                   'session %s of queue %s waits since %s, but sessions are looked for from %s on'
              from pgqueue.waiting_session) as known using (queue_id, kind)
     where due_at < due_from
       and not exists (
           select
             from unnest(awaited, awaited_from) as late (xid, since)
            where since <= due_at and xid not in (select pg_snapshot_xip(pg_current_snapshot())));
$$;
