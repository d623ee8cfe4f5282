-- SETTINGS
select * from pgqueue.queue_settings(:'queue');
