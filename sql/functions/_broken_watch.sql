-- Messages that no receive would ever come to, or only after their time; see pgqueue.broken_invariants.
create or replace function pgqueue._broken_watch()
returns setof text
language sql stable
as $$
    select format('message %s of queue %s is behind the cursor %s, and not under watch', sequence_number, queue_id, cursor)
      from pgqueue.message
      join pgqueue.progress using (queue_id, lane)
      left join pgqueue.watch using (queue_id, lane, position)
     where position <= cursor and due is null and not position > any (awaited_above)
     union all
    select format('message %s of queue %s is locked until %s, but watched until %s', sequence_number, queue_id, locked_until, due)
      from pgqueue.message
      join pgqueue.watch using (queue_id, lane, position)
     where due > greatest(locked_until, pgqueue.clock()) + interval '1 second';
$$;
