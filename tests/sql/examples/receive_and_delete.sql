-- RECEIVE
select * from pgqueue.receive_and_delete(:'queue');
