-- ADMIN
select * from pgqueue.gateway_keys();
