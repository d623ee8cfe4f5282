-- Records that queues have members of batches, so that settlements look for members from now on.
-- Locks    the rows of queues that had none, until the transaction ends.
create or replace function pgqueue._set_has_batches(queue_ids integer[])
returns void
language sql
as $$
    update pgqueue.queue set has_batches = true, records_settlements = true where id = any (queue_ids) and not has_batches;
$$;
