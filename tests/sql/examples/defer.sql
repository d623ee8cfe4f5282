-- RECEIVE
select * from pgqueue.defer(:'queue', :'number', :'token');
