-- ADMIN
select * from pgqueue.resume_schedule(:'schedule');
