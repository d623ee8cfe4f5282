-- RECEIVE
select * from pgqueue.record_action('resubmit', :'queue', 1);
