-- ADMIN
select * from pgqueue.grant_send(:'queue', 'public');
