-- SEND
select * from pgqueue.publish_to_topic(:'topic', '1');
