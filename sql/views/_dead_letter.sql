-- The table of dead letters, to be read in parts; see pgqueue._message.
create or replace view pgqueue._dead_letter with (security_barrier) as
select dead_letter.ctid as place, queue_id, queue.name as queue,
       sequence_number, lane, dead_letter_reason, dead_letter_error_description, dead_lettered_at,
       delivery_count, enqueued_time, locked_until, locked_by,
       -- generated: {message_id to application_properties}, body, binary_body, {from session_id if is_kept}
       message_id, correlation_id, subject, content_type, reply_to, application_properties, body, binary_body,
       session_id, reply_to_session_id, "to", partition_key
       -- end
  from pgqueue.dead_letter
  join pgqueue.queue on queue.id = queue_id
 where (select pgqueue._check_reader());
