-- Wakes the consumers that wait for messages of a queue, when this transaction commits. The caller first checks in the
-- queue's row whether any consumer waits, because NOTIFY takes a lock that the whole database shares. A transaction
-- that is to be prepared must not send a NOTIFY: with `set local pgqueue.notify = off`, consumers find its messages
-- when they poll. So they do when the server's queue of notifications is half full, because a session listens and does
-- not read: once it is full, every COMMIT that notifies fails.
create or replace function pgqueue._notify(queue pgqueue.queue)
returns void
language sql
as $$
    select pg_notify('pgqueue_' || (hashtext(queue.name) & 15), queue.name)
     where coalesce(current_setting('pgqueue.notify', true), '') <> 'off' and pg_notification_queue_usage() < 0.5
$$;
