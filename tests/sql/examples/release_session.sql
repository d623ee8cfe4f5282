-- RECEIVE
select * from pgqueue.release_session(:'queue', 'a', :'token');
