-- RECEIVE
select * from pgqueue.set_session_state(:'queue', 'a', :'token');
