-- RECEIVE
select * from pgqueue.peek_dead_letters(:'queue');
