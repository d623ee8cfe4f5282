-- Unique keys, by queue and key, each with the message that was sent last with it. A message that is settled, or that is locked where the key
-- is for messages that wait, no longer has its key; the next send with that key takes it, or the sweeper deletes the row.
create or replace view pgqueue.unique_keys with (security_barrier) as
select queue.name as queue,
       unique_key,
       sequence_number
  from (select * from pgqueue.queue where pgqueue._may_see_messages(receivers) order by name) as queue
 cross join lateral (
       select * from pgqueue.unique_key where unique_key.queue_id = queue.id order by unique_key) as held;
