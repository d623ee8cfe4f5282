-- RECEIVE
select * from pgqueue.explain_message(:'queue', 1);
