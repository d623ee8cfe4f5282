-- Locked messages: who holds each until when, and how often it was delivered. The lock that expires first comes first.
create or replace view pgqueue.locked_messages as
select queue.name as queue,
       sequence_number,
       locked_by,
       locked_until,
       locked_until - pgqueue.clock() as remaining,
       delivery_count,
       queue.max_delivery_count,
       pgqueue._priority(lane) as priority,
       enqueued_time,
       message_id, correlation_id, subject
  from pgqueue.message
  join pgqueue.queue on queue.id = queue_id
 where locked_until > pgqueue.clock()
 order by locked_until;
