-- RECEIVE
select * from pgqueue.move_messages(:'queue', array[:'scheduled'::bigint], :'open');
