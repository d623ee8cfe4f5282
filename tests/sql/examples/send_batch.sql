-- SEND
select * from pgqueue.send_batch(:'queue', array['1']::jsonb[]);
