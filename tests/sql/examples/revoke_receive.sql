-- ADMIN
select * from pgqueue.revoke_receive(:'queue', 'public');
