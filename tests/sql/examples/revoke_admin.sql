-- ADMIN
select * from pgqueue.revoke_admin(:'role');
