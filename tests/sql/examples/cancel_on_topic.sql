-- SEND
select * from pgqueue.cancel_on_topic(:'topic', '{}');
