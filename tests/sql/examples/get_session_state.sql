-- RECEIVE
select * from pgqueue.get_session_state(:'queue', 'a');
