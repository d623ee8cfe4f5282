-- Renews a lock: it lasts `lock_duration` (the queue's own when null) from now.
-- Returns  until when the message is locked.
-- Raises   PQ001 lock lost, PQ002 unknown queue, PQ007 invalid argument.
create or replace function pgqueue.renew_lock(
    queue text, sequence_number bigint, lock_token uuid, lock_duration interval default null)
returns timestamptz
language sql
set search_path = pg_catalog, pg_temp
as $$
    select renewed.locked_until
      from pgqueue.renew_lock_batch(queue, array[sequence_number], array[lock_token], lock_duration, atomic => true) as renewed;
$$;
