-- RECEIVE
select * from pgqueue.renew_session_lock(:'queue', 'a', :'token');
