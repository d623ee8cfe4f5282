-- OUTCOME: that to send or to receive
select * from pgqueue.result(:'queue', :'number');
