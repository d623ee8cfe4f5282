-- Scheduled messages. The message that is due first comes first.
create or replace view pgqueue.scheduled_messages as
select queue.name as queue,
       sequence_number,
       scheduled_enqueue_time,
       delivery_count,
       pgqueue._priority(lane) as priority,
       enqueued_time,
       expires_at,
       message_id, correlation_id, subject, content_type, reply_to, application_properties, body, binary_body
  from pgqueue.scheduled_message
  join pgqueue.queue on queue.id = queue_id
 order by scheduled_enqueue_time;
