-- ADMIN
select * from pgqueue.revoke_send(:'queue', 'public');
