-- RECEIVE
select * from pgqueue.abandon(:'queue', :'number', :'token');
