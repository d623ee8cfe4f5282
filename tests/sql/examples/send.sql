-- SEND
select * from pgqueue.send(:'queue', '1');
