-- Messages that can be received or are locked, in the order of sending; lower priorities are served first.
create or replace view pgqueue.messages as
select queue.name as queue,
       sequence_number,
       case when locked_until > pgqueue.clock() then 'LOCKED' else 'READY' end as state,
       lane >> 1 as priority,
       delivery_count,
       enqueued_time,
       locked_until,
       locked_by,
       message_id, correlation_id, subject, content_type, reply_to, application_properties, body, binary_body
  from pgqueue.message
  join pgqueue.queue on queue.id = queue_id
 order by queue.name, sequence_number;
