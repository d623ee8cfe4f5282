-- RECEIVE
select * from pgqueue.receive(:'queue');
