-- RECEIVE
select * from pgqueue.resolve(:'queue', :'number', :'token', '3');
