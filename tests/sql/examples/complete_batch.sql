-- RECEIVE
select * from pgqueue.complete_batch(:'queue', array[:'number'::bigint], array[:'token'::uuid]);
