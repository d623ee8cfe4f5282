-- RECEIVE
select * from pgqueue.receive_deferred(:'queue', array[:'deferred'::bigint]);
