-- Locked messages, by queue: who holds each until when, and how often it was delivered. A fresh message that lies behind a
-- hundred others that are not held is missing.
create or replace view pgqueue.locked_messages with (security_barrier) as
select queue, sequence_number, locked_by,
       date_trunc('second', locked_until - pgqueue.clock()) as remaining,
       date_trunc('second', locked_until) as locked_until,
       delivery_count, max_delivery_count, priority, enqueued_time, message_id, correlation_id, subject
  from pgqueue._held_message
 where locked_until > pgqueue.clock();
