-- ADMIN
select * from pgqueue.alter_topic(:'topic', 'ACTIVE');
