-- Topics: how many subscriptions each has, for those who may send to it, receive from one of its subscriptions, or monitor.
create or replace view pgqueue.topics with (security_barrier) as
select topic.name, subscriptions, topic.created_at
  from pgqueue.topic
 cross join lateral (
       select count(*) as subscriptions, coalesce(bool_or(pgqueue._may_see_locks(receivers)), false) as is_receiver
         from pgqueue.subscription
         join pgqueue.queue on queue.id = queue_id
        where topic_id = topic.id) as subscribed
 where pgqueue._may_view_sent(senders) or pgqueue._may_see_locks('{}') or is_receiver
 order by topic.name;
