-- ADMIN
select * from pgqueue.drop_topic(:'topic');
