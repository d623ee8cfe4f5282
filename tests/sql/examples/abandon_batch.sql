-- RECEIVE
select * from pgqueue.abandon_batch(:'queue', array[:'number'::bigint], array[:'token'::uuid]);
