-- RECEIVE
select * from pgqueue.record_effect(:'queue', 'key', 'effect');
