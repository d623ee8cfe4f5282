-- ADMIN
select * from pgqueue.drop_subscription(:'topic', 's');
