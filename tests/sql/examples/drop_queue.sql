-- ADMIN
select * from pgqueue.drop_queue(:'queue');
