-- ADMIN
select * from pgqueue.purge_queue(:'queue');
