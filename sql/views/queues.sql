-- Queues: settings, how much is in each, and how old the oldest message is that waits.
create or replace view pgqueue.queues as
select name, status, lock_duration, max_delivery_count, max_message_size, user_metadata, created_at, updated_at,
       ready, locked, scheduled, dead_letters, oldest_enqueued_time, pgqueue.clock() - oldest_enqueued_time as oldest_age
  from pgqueue.queue
 cross join lateral (
       select count(*) filter (where is_free) as ready,
              count(*) filter (where not is_free) as locked,
              min(enqueued_time) filter (where is_free) as oldest_enqueued_time
         from (select enqueued_time, locked_until is null or locked_until <= pgqueue.clock() as is_free
                 from pgqueue.message
                where queue_id = queue.id) as message) as present
 cross join lateral (select count(*) as scheduled from pgqueue.scheduled_message where queue_id = queue.id) as later
 cross join lateral (select count(*) as dead_letters from pgqueue.dead_letter where queue_id = queue.id) as dead;
