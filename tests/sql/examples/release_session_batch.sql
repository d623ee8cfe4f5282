-- RECEIVE
select * from pgqueue.release_session_batch(:'queue', array['a'], array[:'token']::uuid[]);
