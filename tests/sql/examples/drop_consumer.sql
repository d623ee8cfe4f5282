-- RECEIVE
select * from pgqueue.drop_consumer(:'consumer', :'epoch');
