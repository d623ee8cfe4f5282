-- RECEIVE
select * from pgqueue.pin(:'queue', :'number', :'token');
