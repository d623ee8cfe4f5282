-- RECEIVE
select * from pgqueue.resubmit(:'queue');
