-- ADMIN
select * from pgqueue.grant_receive(:'queue', 'public');
