-- ANYONE: only those of queues that the caller may receive from
select * from pgqueue.schedules_to_plan();
