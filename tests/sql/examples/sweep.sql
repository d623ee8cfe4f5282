-- RECEIVE of all queues
select * from pgqueue.sweep();
