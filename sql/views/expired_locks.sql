-- Locks that expired before the message was settled, by queue. Anyone can receive such a message; until then, its
-- last holder may still settle it. `locked_until` is null once the message was put back for redelivery. As in
-- pgqueue.locked_messages, a fresh message may be missing.
create or replace view pgqueue.expired_locks with (security_barrier) as
select queue, sequence_number, locked_by,
       date_trunc('second', locked_until) as locked_until,
       delivery_count, max_delivery_count, priority, enqueued_time, message_id, correlation_id, subject
  from pgqueue._held_message
 where has_lock and (locked_until is null or locked_until <= pgqueue.clock());
