-- MONITOR of all queues
select * from pgqueue.broken_invariants();
