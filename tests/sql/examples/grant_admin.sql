-- ADMIN
select * from pgqueue.grant_admin(:'role');
