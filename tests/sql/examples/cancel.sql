-- RECEIVE
select * from pgqueue.cancel(:'queue', :'number', 'sent by mistake');
