-- OUTCOME: that to send or to receive
select * from pgqueue.outcomes(:'queue', array[:'number'::bigint]);
