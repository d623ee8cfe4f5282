-- SEND
select * from pgqueue.check_staged(:'queue', :'staged');
