-- ADMIN
select * from pgqueue.run_schedule(:'schedule');
