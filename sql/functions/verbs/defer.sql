-- Sets a locked message aside: from then on it is received by its sequence number only, with pgqueue.receive_deferred.
-- The delivery is not counted.
-- Returns  the id of the transaction or savepoint, as pgqueue.complete does.
-- Raises   PQ001 lock lost, PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the message, until the transaction ends.
create or replace function pgqueue.defer(queue text, sequence_number bigint, lock_token uuid, properties jsonb default null)
returns xid8
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform from pgqueue.defer_batch(queue, array[sequence_number], array[lock_token], properties, atomic => true);
    return pgqueue._settling_xid();
end
$$;
