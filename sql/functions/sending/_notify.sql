-- Tells those who wait for messages of a queue that some have come, when this transaction commits. It is for the caller
-- to see in the queue's row whether anybody waits: a NOTIFY takes a lock that all of the database shares. A transaction
-- that is to be prepared must not send one: `set local pgqueue.notify = off`, and who waits finds out by himself.
create or replace function pgqueue._notify(queue pgqueue.queue)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
    select pg_notify('pgqueue_' || (hashtext(queue.name) & 15), queue.name)
     where coalesce(current_setting('pgqueue.notify', true), '') <> 'off'
$$;
