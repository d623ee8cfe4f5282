-- RECEIVE
select * from pgqueue.receive_dead_letters(:'queue');
