-- Renews a lock: it lasts `lock_duration` (the queue's own when null) from now.
-- Returns  the time until which the message is locked.
-- Raises   PQ001 lock lost, PQ002 unknown queue, PQ007 invalid argument.
create or replace function pgqueue.renew_lock(
    queue text, sequence_number bigint, lock_token uuid, lock_duration interval default null)
returns timestamptz
language plpgsql
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    moment  pg_catalog.timestamptz := pgqueue.clock();
    renewed pg_catalog.timestamptz;
begin
    update pgqueue.message               -- fast path: a fresh message of priority 0, if its lock gets longer
       set locked_until = free.until
      from (select message.ctid as place, moment + coalesce(renew_lock.lock_duration, source.lock_duration) as until
              from pgqueue.queue as source
              join pgqueue.message on queue_id = source.id
             where name = renew_lock.queue
               and lane = 1 and position = renew_lock.sequence_number and lock_token = renew_lock.lock_token
               and greatest(locked_until, moment) < moment + coalesce(renew_lock.lock_duration, source.lock_duration)
               for update of message skip locked) as free
     where ctid = place
    returning locked_until into renewed;
    if not found then
        select batch.locked_until into renewed
          from pgqueue.renew_lock_batch(
               queue, array[renew_lock.sequence_number], array[renew_lock.lock_token], renew_lock.lock_duration,
               atomic => true) as batch;
    end if;
    return renewed;
end
$$;
