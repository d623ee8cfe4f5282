-- Deferred messages, which are received by their sequence numbers only. The state is LOCKED while somebody holds the
-- lock of one.
create or replace view pgqueue.deferred_messages as
select queue.name as queue,
       sequence_number,
       case when locked_until > pgqueue.clock() then 'LOCKED' else 'DEFERRED' end as state,
       delivery_count,
       pgqueue._priority(lane) as priority,
       enqueued_time,
       expires_at,
       locked_until,
       locked_by,
       message_id, correlation_id, subject, content_type, reply_to, application_properties, body, binary_body
  from pgqueue.message
  join pgqueue.queue on queue.id = queue_id
 where lane % 2 = 0 and lane >= 800
 order by queue.name, sequence_number;
