-- Renews a lock: it lasts `lock_duration` (the queue's own when null) from now.
-- Returns  the time until which the message is locked.
-- Raises   PQ001 lock lost, PQ002 unknown queue, PQ007 invalid argument.
create or replace function pgqueue.renew_lock(
    queue text, sequence_number bigint, lock_token uuid, lock_duration interval default null)
returns timestamptz
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    moment  timestamptz := pgqueue.clock();
    renewed timestamptz;
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    if renew_lock.lock_duration is not null then
        perform pgqueue._check_duration('lock_duration', renew_lock.lock_duration);
    end if;
    update pgqueue.message               -- fast path: a fresh message of priority 0, if its lock gets longer
       set locked_until = free.until
      from (select held.place, moment + coalesce(renew_lock.lock_duration, source.lock_duration) as until
              from pgqueue.queue as source
             cross join lateral (                             -- by itself: a join may read the lanes of all queues
                   select message.ctid as place
                     from pgqueue.message
                    where queue_id = source.id
                      and lane = 1 and position = renew_lock.sequence_number and lock_token = renew_lock.lock_token
                      and locked_until < moment + coalesce(renew_lock.lock_duration, source.lock_duration)
                      for update of message skip locked) as held
             where name = renew_lock.queue and pgqueue._may_receive(receivers)) as free
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
