-- Gives back many messages that were received but on which no work has begun, as a consumer does when it stops; the
-- deliveries are not counted. They are delivered again at once, before the fresh messages and in the order they were
-- sent.
-- Returns  one row per lock, in the order given: sqlstate is null if the message was given back, else PQ001.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the messages, until the transaction ends.
create or replace function pgqueue.release_batch(queue text, sequence_numbers bigint[], lock_tokens uuid[])
returns table (sequence_number bigint, sqlstate text)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    source pgqueue.queue;
    held   record;
begin
    if pgqueue._is_dead_letter_queue(queue) then
        return query select * from pgqueue._settle_dead_letters('RELEASE', queue, sequence_numbers, lock_tokens);
        return;
    end if;
    source := pgqueue._find_queue(queue, 'RECEIVE');
    select * into held from pgqueue._lock_proven(source, sequence_numbers, lock_tokens);
    perform pgqueue._release_groups(source, held.places);
    perform pgqueue._redeliver(pgqueue._uncount_delivery(held.places), settled => true);
    if source.awaited_until > pgqueue.clock() then
        perform pgqueue._notify(source);
    end if;
    return query select * from pgqueue._settlement_results(queue, sequence_numbers, held.proven, atomic => false);
end
$$;
