-- Locks the row of a locked message until the transaction ends.
-- Returns  the ctid of the row, in an array.
-- Raises   PQ001 lock lost.
create or replace function pgqueue._pin(queue pgqueue.queue, sequence_number bigint, lock_token uuid)
returns tid[]
language plpgsql
as $$
declare
    held tid[] := (pgqueue._lock_proven(queue, array[sequence_number], array[lock_token])).places;
begin
    if cardinality(held) = 0 then
        perform pgqueue._refuse_lost_lock(queue.name, sequence_number);
    end if;
    return held;
end
$$;
