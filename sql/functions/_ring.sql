-- Tells those who wait for messages of a queue that some have come, when this transaction commits. It is for the caller
-- to see in the queue's row whether anybody waits: a NOTIFY takes a lock that all of the database shares.
create or replace function pgqueue._ring(queue pgqueue.queue)
returns void
language sql
as $$
    select pg_notify('pgqueue_' || (hashtext(queue.name) & 15), queue.name)
$$;
