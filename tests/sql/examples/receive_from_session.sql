-- RECEIVE
select * from pgqueue.receive_from_session(:'queue', 'a', :'token');
