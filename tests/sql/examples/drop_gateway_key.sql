-- ADMIN
select pgqueue.drop_gateway_key(:'key');
