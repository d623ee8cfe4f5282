-- The ids of queues, for callers who may receive from every queue.
create or replace view pgqueue._queue with (security_barrier) as
select id, name
  from pgqueue.queue
 where (select pgqueue._check_reader());
