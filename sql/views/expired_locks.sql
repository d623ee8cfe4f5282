-- Locks that expired before the message was settled. Anyone can receive such a message; until somebody does, its last
-- holder may still settle it. `locked_until` is null once the message was put back for redelivery.
create or replace view pgqueue.expired_locks as
select queue.name as queue,
       sequence_number,
       locked_by,
       locked_until,
       delivery_count,
       queue.max_delivery_count,
       pgqueue._priority(lane) as priority,
       enqueued_time,
       message_id, correlation_id, subject
  from pgqueue.message
  join pgqueue.queue on queue.id = queue_id
 where lock_token is not null and (locked_until is null or locked_until <= pgqueue.clock())
 order by locked_until;
