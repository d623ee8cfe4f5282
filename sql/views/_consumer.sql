-- How far consumers have claimed and settled, of the queues that the caller may receive from.
create or replace view pgqueue._consumer with (security_barrier) as
select queue.name as queue, consumer.name, claim, lost_messages, settled_claim
  from pgqueue.consumer
  join pgqueue.queue on queue.id = queue_id
 where pgqueue._may_see_messages(receivers);
