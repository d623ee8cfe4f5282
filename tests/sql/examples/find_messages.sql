-- RECEIVE
select * from pgqueue.find_messages(:'queue');
