-- ADMIN
select * from pgqueue.alter_subscription(:'topic', 's');
