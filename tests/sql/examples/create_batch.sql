-- SEND
select pgqueue.create_batch(:'queue', :'held');
