-- PGMQ itself, whose functions are in the database already.
select pgmq.create('bench');
