-- MONITOR of all queues
select * from pgqueue.queues_to_sweep();
