-- SEND
select * from pgqueue.stage(:'queue', 'job', 'part', '{body}');
