-- SEND
select * from pgqueue.send_to_topic(:'topic', array['1']::jsonb[]);
