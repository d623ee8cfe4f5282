-- The table of scheduled messages, to be read in parts; see pgqueue._message.
create or replace view pgqueue._scheduled_message with (security_barrier) as
select scheduled_message.ctid as place, queue_id, queue.name as queue,
       sequence_number, scheduled_enqueue_time, lane, delivery_count, enqueued_time, expires_at,
       -- generated: {message_id to application_properties}, body, binary_body, {from session_id if is_kept}
       message_id, correlation_id, subject, content_type, reply_to, application_properties, body, binary_body,
       session_id, reply_to_session_id, "to", partition_key
       -- end
  from pgqueue.scheduled_message
  join pgqueue.queue on queue.id = queue_id
 where (select pgqueue._check_reader());
