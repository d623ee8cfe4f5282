-- Dead letters, with the reason and the time of dead-lettering.
create or replace view pgqueue.dead_letters as
select queue.name as queue,
       sequence_number,
       dead_letter_reason,
       dead_letter_error_description,
       dead_lettered_at,
       delivery_count,
       pgqueue._priority(lane) as priority,
       enqueued_time,
       locked_until,
       locked_by,
       message_id, correlation_id, subject, content_type, reply_to, application_properties, body, binary_body
  from pgqueue.dead_letter
  join pgqueue.queue on queue.id = queue_id
 order by queue.name, sequence_number;
