-- The claims of consumers in the queues that the caller may receive from; without the tokens, which would prove their locks.
create or replace view pgqueue._claim with (security_barrier) as
select queue.name as queue, consumer, claim.claim, messages, numbers, fresh, settled_at
  from pgqueue.claim
  join pgqueue.consumer on consumer.name = claim.consumer
  join pgqueue.queue on queue.id = queue_id
 where pgqueue._may_see_messages(receivers);
