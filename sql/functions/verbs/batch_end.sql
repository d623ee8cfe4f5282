-- Returns the time for which final messages of batches are scheduled: schedule a message for it, then call pgqueue.create_batch.
create or replace function pgqueue.batch_end()
returns timestamptz
language sql immutable
return timestamptz '9000-01-01 00:00+00';
