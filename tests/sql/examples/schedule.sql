-- SEND
select * from pgqueue.schedule(:'queue', '1', '2099-01-01');
