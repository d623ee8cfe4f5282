-- Deletes a message that was received, in the transaction it is called in: commit finishes the message together
-- with the work, abort leaves it there and still locked by the same token.
-- Returns  the id of that transaction; pgqueue.resolve answers what became of it.
-- Raises   PQ001 lock lost, PQ002 unknown queue.
-- Locks    the message, until the transaction ends.
create or replace function pgqueue.complete(queue text, sequence_number bigint, lock_token uuid)
returns xid8
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
    held tid[] := pgqueue._pin(queue, sequence_number, lock_token);
begin
    delete from pgqueue.message where ctid = any (held);
    return pg_current_xact_id();
end
$$;
