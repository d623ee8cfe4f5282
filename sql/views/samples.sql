-- The figures of queues, at most a minute apart, for a week; by queue and time. Of `waited` and `worked` the median, the 95th
-- and the 99th percentile are given, in seconds, of the messages that were completed in that minute.
create or replace view pgqueue.samples with (security_barrier) as
select queue.name as queue, sampled_at, ready, locked, scheduled, deferred, dead_letters, is_exact, oldest_age, settled, waited, worked
  from pgqueue.sample
  join pgqueue.queue on queue.id = queue_id
 where pgqueue._may_see_locks(receivers);
