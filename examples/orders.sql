-- Sending, receiving and settling in psql, without the library: psql -f examples/orders.sql
-- The schema must be installed: pgqueue migrate.
\set ON_ERROR_STOP on

select pgqueue.create_queue('example-orders', lock_duration => '30 seconds', max_delivery_count => 3);

-- An order and its message, in one transaction.
begin;
create temporary table placed as select 7 as id;
create temporary table shipped (id int);
select pgqueue.send('example-orders', '{"order": 7}', subject => 'order.placed') as sent;
commit;

-- Receiving locks the message; it stays in the queue, hidden from others. Its result goes into psql variables.
select sequence_number, lock_token, body ->> 'order' as order_id
  from pgqueue.receive('example-orders', lock_duration => '1 minute')
\gset

\echo received order :order_id
select sequence_number, delivery_count, locked_by, locked_until > now() as is_locked
  from pgqueue.locked_messages
 where queue = 'example-orders';

-- The work and the completion, in one transaction; it aborts, and both are undone.
begin;
insert into shipped values (:order_id);
select pgqueue.complete('example-orders', :sequence_number, :'lock_token');
rollback;
select (select count(*) from shipped) as shipped, ready, locked from pgqueue.queues where name = 'example-orders';

-- We still hold the lock, so the work can be done again in another transaction.
begin;
insert into shipped values (:order_id);
select pgqueue.complete('example-orders', :sequence_number, :'lock_token');
commit;
select (select count(*) from shipped) as shipped, ready, locked from pgqueue.queues where name = 'example-orders';

-- A message that cannot be processed is dead-lettered, with the reason, and resubmitted once the cause is repaired.
select pgqueue.send('example-orders', '"illegible"') as sent
\gset
select pgqueue.dead_letter('example-orders', sequence_number, lock_token, 'Illegible', 'who wrote this?')
  from pgqueue.receive('example-orders');
select sequence_number, dead_letter_reason, dead_letter_error_description
  from pgqueue.dead_letters
 where queue = 'example-orders';
select pgqueue.resubmit('example-orders', reason => 'Illegible') = :sent as is_back;

select pgqueue.drop_queue('example-orders');
