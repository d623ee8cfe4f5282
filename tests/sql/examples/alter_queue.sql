-- ADMIN
select * from pgqueue.alter_queue(:'queue', '1 minute');
