-- The table of the history, to be read in parts; see pgqueue._message. `slot` is the partition of the place.
create or replace view pgqueue._settled_message with (security_barrier) as
select settled_message.ctid as place, slot, queue_id, queue.name as queue, retain_history,
       sequence_number, transaction_id, settled_at, outcome, reason,
       enqueued_time, first_locked_at, delivery_count, locked_by, priority, body_size,
       message_id, correlation_id, subject, content_type, session_id
  from pgqueue.settled_message
  join pgqueue.queue on queue.id = queue_id
 where (select pgqueue._check_reader());
