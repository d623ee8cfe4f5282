-- Checks what check constraints would guarantee if they cost nothing; see the table pgqueue.message. Reads all tables:
-- meant for tests, and for when something looks wrong.
-- Returns  one sentence for each violation; no rows when there is none.
create or replace function pgqueue.broken_invariants()
returns setof text
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_monitor();
    return query
        select * from pgqueue._find_broken_messages()
         union all
        select * from pgqueue._find_broken_progress()
         union all
        select * from pgqueue._find_broken_sessions()
         union all
        select * from pgqueue._find_broken_batches()
         union all
        select case
                   when due is null
                   then format('message %s of queue %s is behind the cursor %s, and not under watch', sequence_number, queue.id, cursor)
                   else format('message %s of queue %s is locked until %s, but watched until %s', sequence_number, queue.id,
                               coalesce(locked_until::text, 'no time'), due)
               end
          from pgqueue.queue
         cross join lateral pgqueue._find_overlooked(queue.id);     -- no receive would reach them, or only after their time
end
$$;
