-- SEND
select * from pgqueue.reschedule(:'queue', :'scheduled', '2098-01-01');
