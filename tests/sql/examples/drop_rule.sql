-- ADMIN
select * from pgqueue.drop_rule(:'topic', 's', '$Default');
