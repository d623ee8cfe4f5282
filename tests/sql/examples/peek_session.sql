-- RECEIVE
select * from pgqueue.peek_session(:'queue', 'a');
