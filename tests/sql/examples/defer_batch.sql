-- RECEIVE
select * from pgqueue.defer_batch(:'queue', array[:'number'::bigint], array[:'token'::uuid]);
