-- SEND
select pgqueue.add_to_batch(:'batch', :'queue', array[:'number'::bigint]);
