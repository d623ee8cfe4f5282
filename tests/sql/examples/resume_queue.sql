-- ADMIN
select * from pgqueue.resume_queue(:'queue');
