-- RECEIVE
select * from pgqueue.take_turn(:'queue');
