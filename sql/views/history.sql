-- The history of settled messages, in queues that retain history, for as long as they retain it: COMPLETED,
-- DEAD_LETTERED, EXPIRED, RECEIVED_AND_DELETED, PURGED, DELETED, CANCELLED or MOVED. With a filter on `settled_at`, only
-- those days are read. `transaction_id` is the transaction of the settlement: below pg_snapshot_xmin(pg_current_snapshot()) no more
-- rows appear.
create or replace view pgqueue.history with (security_barrier) as
select queue.name as queue,
       sequence_number, outcome, delivery_count, settled_at, reason, enqueued_time, first_locked_at, locked_by, priority,
       message_id, correlation_id, subject, content_type, session_id, body_size, transaction_id
  from pgqueue.settled_message
  join pgqueue.queue on queue.id = queue_id
 where settled_at > pgqueue.clock() - retain_history and pgqueue._may_see_messages(receivers);
