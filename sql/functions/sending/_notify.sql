-- Wakes the consumers that wait for messages of a queue, when this transaction commits; does nothing while none waits,
-- because NOTIFY takes a lock that the whole database shares. The caller first checks in the queue's row whether any
-- consumer may wait. A transaction that is to be prepared must not send a NOTIFY: with `set local pgqueue.notify = off`,
-- consumers find its messages when they poll. So they do when the server's queue of notifications is half full, because a
-- session listens and does not read: once it is full, every COMMIT that notifies fails.
create or replace function pgqueue._notify(queue pgqueue.queue)
returns void
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();   -- a condition of the index: it must not change from row to row
begin
    if coalesce(current_setting('pgqueue.notify', true), '') <> 'off'
       and exists (select from pgqueue.waiting_consumer where queue_id = queue.id and waits_until > moment)
       and pg_notification_queue_usage() < 0.5 then
        perform pg_notify('pgqueue_' || (hashtext(queue.name) & 15), queue.name);
    end if;
end
$$;
