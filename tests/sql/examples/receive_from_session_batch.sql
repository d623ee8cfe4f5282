-- RECEIVE
select * from pgqueue.receive_from_session_batch(:'queue', array['a'], array[:'token']::uuid[], array[10]);
