-- Finishes a batch, whose row is locked: sends its final message, whose time to live begins now, and deletes the other one. A final message
-- that was cancelled or rescheduled no longer belongs to the batch.
-- Locks    both messages, until the transaction ends; waits for an open transaction that cancels or reschedules one.
create or replace function pgqueue._finish_batch(batch pgqueue.batch)
returns void
language plpgsql
set enable_seqscan = off
as $$
declare
    target    pgqueue.queue;
    failed    boolean := batch.failure_number is not null and exists (
        select from pgqueue.batch_stripe where batch_id = batch.id and dead_lettered > 0);
    places    tid[];
    activated record;
begin
    update pgqueue.batch as known set finished_at = pgqueue.clock() where known.id = batch.id;
    select known.* into target from pgqueue.queue as known where known.id = batch.queue_id;
    if not found then
        return;
    end if;
    perform pgqueue._use(target);
    perform pgqueue._delete_scheduled(
        target, pgqueue._lock_held(target.id, case when failed then batch.sequence_number else batch.failure_number end, batch.id), 'CANCELLED');
    places := pgqueue._lock_held(target.id, case when failed then batch.failure_number else batch.sequence_number end, batch.id);
    with due as (
        update pgqueue.scheduled_message
           set enqueued_time = pgqueue.clock(), scheduled_enqueue_time = pgqueue.clock(), expires_at = pgqueue.clock() + time_to_live
         where ctid = any (places)
        returning ctid as place)
    select array_agg(place) into places from due;
    select * into activated from pgqueue._unschedule(places);
    if activated.sessions is not null then
        perform pgqueue._announce_sessions(target.id, activated.sessions);
    end if;
    if target.awaited_until > pgqueue.clock() then
        perform pgqueue._notify(target);
    end if;
end
$$;
