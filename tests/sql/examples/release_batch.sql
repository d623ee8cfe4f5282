-- RECEIVE
select * from pgqueue.release_batch(:'queue', array[:'number'::bigint], array[:'token'::uuid]);
