-- The clock of all queues: that of the database. Every lock and every due time is read from it, never from a client's
-- clock, and never from now(), which does not advance within a transaction. pgqueue.testing replaces this function to
-- move time.
create or replace function pgqueue.clock()
returns timestamptz
language sql volatile parallel safe
return clock_timestamp();
