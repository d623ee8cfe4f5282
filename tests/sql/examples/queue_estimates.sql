-- MONITOR of all queues
select * from pgqueue.queue_estimates();
