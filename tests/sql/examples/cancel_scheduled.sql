-- SEND
select * from pgqueue.cancel_scheduled(:'queue', array[:'scheduled'::bigint]);
