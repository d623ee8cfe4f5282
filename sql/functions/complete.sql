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
    source pgqueue.queue;
begin
    if pgqueue._is_dead_letter_queue(queue) then
        perform pgqueue._settle_dead_letters('COMPLETE', queue, array[sequence_number], array[lock_token], atomic => true);
    else
        source := pgqueue._find_queue(queue);
        perform pgqueue._remove(source, pgqueue._pin(source, sequence_number, lock_token), 'COMPLETED');
    end if;
    return pg_current_xact_id();
end
$$;
