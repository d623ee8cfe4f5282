-- Batches that were staged and are not published yet, for the queues that the caller may send to.
create or replace view pgqueue._staged_batch with (security_barrier) as
select queue.name as queue, staged_batch.name, staged_at
  from pgqueue.staged_batch
  join pgqueue.queue on queue.id = queue_id
 where pgqueue._may_view_sent(senders);
