-- Queues: the settings of each, how many messages it holds in each state, and the age of the oldest message that is
-- ready.
create or replace view pgqueue.queues as
select name, status, lock_duration, max_delivery_count, max_message_size, max_queue_length,
       default_message_time_to_live, dead_lettering_on_message_expiration,
       requires_duplicate_detection, duplicate_detection_history_time_window, retain_history,
       user_metadata, created_at, updated_at,
       ready, locked, deferred, expired, scheduled, dead_letters,
       oldest_enqueued_time, pgqueue.clock() - oldest_enqueued_time as oldest_age
  from pgqueue.queue
 cross join lateral (
       select count(*) filter (where state = 'READY') as ready,
              count(*) filter (where state = 'LOCKED') as locked,
              count(*) filter (where state = 'DEFERRED') as deferred,
              count(*) filter (where state = 'EXPIRED') as expired,
              min(enqueued_time) filter (where state = 'READY') as oldest_enqueued_time
         from (select enqueued_time,
                      case when locked_until > pgqueue.clock() then 'LOCKED'
                           when expires_at <= pgqueue.clock() then 'EXPIRED'
                           when lane >= 800 then 'DEFERRED'
                           else 'READY' end as state
                 from pgqueue.message
                where queue_id = queue.id) as message) as present
 cross join lateral (select count(*) as scheduled from pgqueue.scheduled_message where queue_id = queue.id) as later
 cross join lateral (select count(*) as dead_letters from pgqueue.dead_letter where queue_id = queue.id) as dead;
