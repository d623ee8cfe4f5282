-- RECEIVE
select * from pgqueue.recorded_effects(:'queue', 'key');
