-- Queues: how many messages each holds in each state, the age of the oldest message that is ready, and then the settings.
-- In a large database some counts are estimates, where `is_exact` is false. pgqueue.queue_counts counts exactly, one queue or
-- all: ask for one where you need one.
create or replace view pgqueue.queues with (security_barrier) as
select name, ready, locked, scheduled, deferred, expired, exhausted, dead_letters,
       date_trunc('second', pgqueue.clock() - oldest_enqueued_time) as oldest_age,
       is_exact, status, date_trunc('second', paused_at) as paused_at,
       date_trunc('second', oldest_enqueued_time) as oldest_enqueued_time,
       lock_duration, max_delivery_count, max_message_size, max_queue_length, max_receive_rate, max_concurrent, priority_ageing,
       default_message_time_to_live, dead_lettering_on_message_expiration,
       requires_duplicate_detection, duplicate_detection_history_time_window, retain_history, retain_errors,
       auto_delete_on_idle, requires_session,
       (select target.name from pgqueue.queue as target where target.id = queue.forward_to) as forward_to,
       (select target.name from pgqueue.queue as target where target.id = queue.forward_dead_lettered_messages_to)
       as forward_dead_lettered_messages_to,
       user_metadata,
       date_trunc('second', created_at) as created_at, date_trunc('second', updated_at) as updated_at
       -- generated: , {after priority_ageing}
       , result_retention, max_concurrent_per_group, max_receive_rate_per_group, fair
       -- end
  from pgqueue.queue
  join pgqueue.queue_estimates() using (name)
 where (select pgqueue._check_counts())
 order by name;
