-- MONITOR of all queues
select * from pgqueue.take_sample();
