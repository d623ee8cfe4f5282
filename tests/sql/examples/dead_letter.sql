-- RECEIVE
select * from pgqueue.dead_letter(:'queue', :'number', :'token', 'reason');
