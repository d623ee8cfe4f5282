-- ANYONE: only null for those who may not monitor
select * from pgqueue.queues_to_sweep();
