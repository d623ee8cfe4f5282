-- ADMIN
select * from pgqueue.create_rule(:'topic', 's', 'other');
