-- RECEIVE
select * from pgqueue.renew_lock(:'queue', :'number', :'token');
