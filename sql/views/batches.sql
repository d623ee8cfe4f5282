-- Batches, for roles that may use or monitor the queue of the final message: `sequence_number`, or `on_failure` if a member was
-- dead-lettered. Finished batches are deleted after a day.
create or replace view pgqueue.batches with (security_barrier) as
select batch.id, queue.name as queue, sequence_number, failure_number as on_failure,
       total, pending, completed, dead_lettered, deleted, batch.created_at, closed_at, finished_at
  from (select * from pgqueue.queue where pgqueue._may_see_locks(receivers) or pgqueue._may_view_sent(senders)) as queue
  join pgqueue.batch on batch.queue_id = queue.id
 cross join lateral (
       select sum(pending + completed + dead_lettered + deleted)::bigint as total, sum(pending)::bigint as pending,
              sum(completed)::bigint as completed, sum(dead_lettered)::bigint as dead_lettered, sum(deleted)::bigint as deleted
         from pgqueue.batch_stripe
        where batch_id = batch.id) as counted;
