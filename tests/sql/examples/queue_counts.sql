-- MONITOR
select * from pgqueue.queue_counts(:'queue');
