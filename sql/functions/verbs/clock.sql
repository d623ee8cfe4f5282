-- The one clock of the queue: the database's. Every lock and every due time is read from it, never
-- from a client, and never from now(), which stands still inside a long transaction.
-- pgqueue.testing replaces this function to move time.
create or replace function pgqueue.clock()
returns timestamptz
language sql volatile parallel safe
return clock_timestamp();
