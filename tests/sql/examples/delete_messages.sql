-- RECEIVE
select * from pgqueue.delete_messages(:'queue', array[:'scheduled'::bigint]);
