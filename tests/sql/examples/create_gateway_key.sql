-- ADMIN
select pgqueue.create_gateway_key(:'new_key', :'role');
