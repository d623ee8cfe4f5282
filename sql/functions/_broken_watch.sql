-- Messages that no receive would ever come to, or only after their time; see pgqueue.broken_invariants.
create or replace function pgqueue._broken_watch()
returns setof text
language sql stable
as $$
    select format('message %s of queue %s is behind the cursor %s, and not under watch', sequence_number, queue_id, cursor)
      from pgqueue.message
      join pgqueue.progress using (queue_id, lane)
      left join pgqueue.watch using (queue_id, lane, position)
     where position <= cursor and due is null
       and not exists (                  -- brought by a transaction that ended only now
           select
             from unnest(awaited, awaited_above) as late (xid, above)
            where above < position and xid not in (select pg_snapshot_xip(pg_current_snapshot())))
     union all
    select format('message %s of queue %s is locked until %s, but watched until %s', sequence_number, queue_id, locked_until, due)
      from pgqueue.message
      join pgqueue.watch using (queue_id, lane, position)
     where due > greatest(locked_until, pgqueue.clock()) + interval '1 second';
$$;
