-- ADMIN
select * from pgqueue.alter_rule(:'topic', 's', '$Default', '{}');
