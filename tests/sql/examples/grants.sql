-- MONITOR of all queues
select * from pgqueue.grants();
