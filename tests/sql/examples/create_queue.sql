-- ADMIN
select * from pgqueue.create_queue(:'new');
