-- Deletes a message that was received, in the transaction it is called in: commit finishes the message together
-- with the work, abort leaves it there and still locked by the same token.
-- Returns  the id of that transaction, or of the savepoint in it; pgqueue.resolve answers what became of it.
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
    places pg_catalog.tid[];
    whole  pg_catalog.xid8;
    stamp  pg_catalog.xid;                               -- that of the savepoint, where one is open
begin
    if pgqueue._is_dead_letter_queue(queue) then
        perform pgqueue._settle_dead_letters('COMPLETE', queue, array[sequence_number], array[lock_token], atomic => true);
    else
        source := pgqueue._find_queue(queue);
        places := pgqueue._pin(source, sequence_number, lock_token);
        if source.retain_history is null then
            delete from pgqueue.message where ctid = any (places) returning xmax into stamp;
        else
            with gone as (
                delete from pgqueue.message where ctid = any (places) returning message, xmax as deleter
            ), remembered as (
                insert into pgqueue.settled_message
                select settled.* from gone cross join lateral pgqueue._as_settled(gone.message, 'COMPLETED') as settled)
            select deleter into stamp from gone;
        end if;
    end if;
    whole := pg_current_xact_id();
    if stamp = whole::pg_catalog.xid then
        return whole;
    end if;
    return pgqueue._settling_xid();
end
$$;
