-- Batches published under a name, in the queues that the caller may send to.
create or replace view pgqueue._published_batch with (security_barrier) as
select queue.name as queue, publisher, part, sent, duplicates
  from pgqueue.published_batch
  join pgqueue.queue on queue.id = queue_id
 where pgqueue._may_view_sent(senders);
