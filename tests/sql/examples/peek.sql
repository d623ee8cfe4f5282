-- RECEIVE
select * from pgqueue.peek(:'queue');
