-- RECEIVE
select * from pgqueue.heartbeat(:'worker', 'host', 1, '1.0', array[:'queue']::text[], 8);
