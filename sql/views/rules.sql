-- Rules of subscriptions: which messages of the topic are stored there, and what is set in them. Without a filter every message
-- matches. An SQL filter has the JSON path that it was translated to.
create or replace view pgqueue.rules with (security_barrier) as
select topic.name as topic, subscription.name as subscription, rule.name, queue.name as queue,
       nullif(correlation_filter, '{}') as correlation_filter, json_path_filter, sql_filter, set_properties, rule.created_at
  from pgqueue.rule
  join pgqueue.subscription using (queue_id)
  join pgqueue.topic on topic.id = subscription.topic_id
  join pgqueue.queue on queue.id = queue_id and pgqueue._may_see_locks(receivers)
 order by topic.name, subscription.name, rule.name;
