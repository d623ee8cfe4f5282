-- RECEIVE
select * from pgqueue.postpone(:'queue', :'number', :'token', '1 hour');
