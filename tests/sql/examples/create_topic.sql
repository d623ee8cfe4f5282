-- ADMIN
select * from pgqueue.create_topic(:'new_topic');
