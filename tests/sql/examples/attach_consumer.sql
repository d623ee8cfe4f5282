-- RECEIVE
select * from pgqueue.attach_consumer(:'consumer', :'queue');
