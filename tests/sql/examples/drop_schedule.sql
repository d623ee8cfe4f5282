-- ADMIN
select * from pgqueue.drop_schedule(:'schedule');
