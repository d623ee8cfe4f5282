-- ADMIN
select * from pgqueue.grant_monitor(:'role');
