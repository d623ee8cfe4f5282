-- Subscriptions: the queue of each, and of its rule $Default which messages of the topic are stored there, and what is set in them;
-- without a filter, every message. pgqueue.rules has all rules, pgqueue.queues the settings and counts.
create or replace view pgqueue.subscriptions with (security_barrier) as
select topic.name as topic, subscription.name, queue.name as queue,
       nullif(correlation_filter, '{}') as correlation_filter, json_path_filter, set_properties, subscription.created_at, sql_filter,
       (select count(*) from pgqueue.rule as any_rule where any_rule.queue_id = subscription.queue_id) as rules
  from pgqueue.subscription
  join pgqueue.topic on topic.id = topic_id
  join pgqueue.queue on queue.id = queue_id and pgqueue._may_see_locks(receivers)
  left join pgqueue.rule on rule.queue_id = subscription.queue_id and rule.name = '$Default'
 order by topic.name, subscription.name;
