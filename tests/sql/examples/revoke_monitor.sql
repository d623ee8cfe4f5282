-- ADMIN
select * from pgqueue.revoke_monitor(:'role');
