-- RECEIVE
select * from pgqueue.renew_lock_batch(:'queue', array[:'number'::bigint], array[:'token'::uuid]);
