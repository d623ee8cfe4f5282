-- ADMIN
select * from pgqueue.pause_queue(:'queue');
