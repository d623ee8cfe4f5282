-- SEND
select * from pgqueue.publish_batch_to_topic(:'topic', array['1']::jsonb[]);
