-- RECEIVE
select * from pgqueue.dead_letter_batch(:'queue', array[:'number'::bigint], array[:'token'::uuid], 'reason');
