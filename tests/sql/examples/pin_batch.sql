-- RECEIVE
select * from pgqueue.pin_batch(:'queue', array[:'number'::bigint], array[:'token'::uuid]);
