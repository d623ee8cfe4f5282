-- Subscriptions: the queue of each, which messages of its topic are stored there, and what is set in them. Without a filter
-- every message matches. pgqueue.queues has their settings and counts.
create or replace view pgqueue.subscriptions with (security_barrier) as
select topic.name as topic, subscription.name, queue.name as queue,
       nullif(correlation_filter, '{}') as correlation_filter, json_path_filter, set_properties, subscription.created_at
  from pgqueue.subscription
  join pgqueue.topic on topic.id = topic_id
  join pgqueue.queue on queue.id = queue_id and pgqueue._may_see_locks(receivers)
 order by topic.name, subscription.name;
