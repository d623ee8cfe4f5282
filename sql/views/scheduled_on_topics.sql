-- Scheduled messages of topics, for those who may receive from a subscription of the topic, or monitor: the number of each in the topic, by
-- which pgqueue.cancel_on_topic cancels it, and in how many subscriptions it was stored. pgqueue.scheduled_messages has these copies.
create or replace view pgqueue.scheduled_on_topics with (security_barrier) as
select topic.name as topic,
       sequence_number,
       date_trunc('second', scheduled_enqueue_time) as scheduled_enqueue_time,
       count(queue.id) as copies
  from (select *
          from pgqueue.topic as known
         where (select pgqueue._may_see_locks('{}'))
            or exists (
               select
                 from pgqueue.subscription
                 join pgqueue.queue on queue.id = queue_id
                where topic_id = known.id and pgqueue._may_see_locks(receivers))) as topic
  join pgqueue.scheduled_on_topic on topic_id = topic.id
  left join pgqueue.queue on queue.id = queue_id                -- not of a subscription that was dropped
 where scheduled_enqueue_time > pgqueue.clock()
 group by topic.name, sequence_number, scheduled_enqueue_time
 order by topic.name, scheduled_enqueue_time, sequence_number;
