-- ADMIN
select * from pgqueue.pause_schedule(:'schedule');
