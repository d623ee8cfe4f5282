-- Deletes messages by their sequence numbers, whether they wait, are scheduled or deferred. Those that a receiver has
-- locked stay, and so do those that an open transaction holds. The holder of a lock that has expired has lost it.
-- Returns  how many were deleted.
-- Raises   PQ002 unknown queue.
-- Locks    the messages, until the transaction ends; skips those that others hold.
create or replace function pgqueue.delete_messages(queue text, sequence_numbers bigint[])
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    source pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
    held   record;
begin
    select * into held from pgqueue._lock_by_number(source, sequence_numbers, even_locked => false);
    return pgqueue._remove(source, held.places, held.scheduled, 'DELETED');
end
$$;
