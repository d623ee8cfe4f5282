-- Schedules: when each is due, what it sends where, and why the last attempt failed if it did. The schedule that is due
-- first comes first. Due times are known up to `known_until`; null means all.
create or replace view pgqueue.schedules with (security_barrier) as
select schedule.name, queue.name as queue, cron, every, timezone, starts_at, ends_at, jitter, catch_up, is_paused,
       case when not is_paused then next_due end as next_due,
       case when plan_at is not null then coalesce(later[cardinality(later)], next_due, passed_until) end as known_until,
       last_due, last_error, schedule.created_at,
       -- generated: {message_id to time_to_live}, body, binary_body, {from session_id}
       message_id, correlation_id, subject, content_type, reply_to, application_properties, priority, time_to_live,
       body, binary_body, session_id, reply_to_session_id, "to", partition_key, unique_key, unique_scope
       -- end
  from pgqueue.schedule
  join pgqueue.queue on queue.id = queue_id and pgqueue._may_see_messages(receivers)
 order by next_due nulls last, schedule.name;
