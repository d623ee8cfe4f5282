-- RECEIVE
select * from pgqueue.accept_session(:'queue');
