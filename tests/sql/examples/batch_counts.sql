-- ANYONE
select * from pgqueue.batch_counts(:'batch');
