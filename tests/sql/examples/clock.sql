-- ANYONE
select * from pgqueue.clock();
