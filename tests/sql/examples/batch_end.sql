-- ANYONE
select * from pgqueue.batch_end();
