-- The table of messages, to be read in parts: `place` is the ctid. For callers who may receive from every queue; without the
-- tokens of locks. Comparisons of places and numbers are leakproof, so they reach the scan below.
create or replace view pgqueue._message with (security_barrier) as
select message.ctid as place, queue_id, queue.name as queue, max_delivery_count,
       sequence_number, lane, pgqueue._is_deferred(lane) as is_deferred,
       delivery_count, enqueued_time, expires_at, locked_until, locked_by,
       -- generated: {message_id to application_properties}, body, binary_body, {from session_id if is_kept}
       message_id, correlation_id, subject, content_type, reply_to, application_properties, body, binary_body,
       session_id, reply_to_session_id, "to", partition_key
       -- end
  from pgqueue.message
  join pgqueue.queue on queue.id = queue_id
 where (select pgqueue._check_reader());
