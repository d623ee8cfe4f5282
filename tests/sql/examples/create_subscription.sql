-- ADMIN
select * from pgqueue.create_subscription(:'topic', 'new');
