-- Deletes what went wrong with messages that are removed for good.
create or replace function pgqueue._forget_failures(queue_id integer, sequence_numbers bigint[])
returns void
language sql
set enable_bitmapscan = off
as $$
    delete from pgqueue.failed_message
     where queue_id = _forget_failures.queue_id and sequence_number = any (sequence_numbers);
$$;
