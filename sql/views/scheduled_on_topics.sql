-- Scheduled messages of the topics that pgqueue.topics shows: the number of each in the topic, by which pgqueue.cancel_on_topic cancels it,
-- and in how many subscriptions it was stored. pgqueue.scheduled_messages has these copies.
create or replace view pgqueue.scheduled_on_topics with (security_barrier) as
select topic.name as topic,
       sequence_number,
       date_trunc('second', scheduled_enqueue_time) as scheduled_enqueue_time,
       count(queue.id) as copies
  from pgqueue.topic
  join pgqueue.scheduled_on_topic on topic_id = topic.id
  left join pgqueue.queue on queue.id = queue_id                -- not of a subscription that was dropped
 where scheduled_enqueue_time > pgqueue.clock()
 group by topic.id, sequence_number, scheduled_enqueue_time
having pgqueue._may_view_sent(topic.senders) or bool_or(pgqueue._may_see_locks(coalesce(queue.receivers, '{}')))
 order by topic.name, scheduled_enqueue_time, sequence_number;
