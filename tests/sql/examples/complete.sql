-- RECEIVE
select * from pgqueue.complete(:'queue', :'number', :'token');
