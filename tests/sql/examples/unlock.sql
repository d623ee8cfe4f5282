-- ADMIN
select * from pgqueue.unlock(:'queue', :'number');
