-- Finds messages that no receive would ever reach, or only after their time; see pgqueue.broken_invariants.
create or replace function pgqueue._find_broken_watch()
returns setof text
language sql stable
set search_path = pg_catalog, pg_temp
as $$
    select case
               when due is null
               then format('message %s of queue %s is behind the cursor %s, and not under watch', sequence_number, queue.id, cursor)
               else format('message %s of queue %s is locked until %s, but watched until %s', sequence_number, queue.id,
                           coalesce(locked_until::text, 'no time'), due)
           end
      from pgqueue.queue
     cross join lateral pgqueue._find_overlooked(queue.id);
$$;
