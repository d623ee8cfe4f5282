-- Checks many locks and locks the rows, as pgqueue.pin does for one: until the transaction ends, these messages are
-- not delivered again. A lost lock neither hides nor undoes the others.
-- Returns  one row per lock, in the order given: sqlstate is null if the lock is held, else PQ001.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the messages, until the transaction ends.
create or replace function pgqueue.pin_batch(queue text, sequence_numbers bigint[], lock_tokens uuid[])
returns table (sequence_number bigint, sqlstate text)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    many integer;
    held record;
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    if array_ndims(sequence_numbers) = 1 and cardinality(sequence_numbers) <= 100 then     -- fast path, as in pgqueue.complete_batch
        perform from pgqueue.message
          where queue_id = (select id from pgqueue.queue where name = pin_batch.queue and pgqueue._may_receive(receivers))
            and lane = 1 and position = any (sequence_numbers)
            and lock_token = lock_tokens[array_position(sequence_numbers, position)]
            for update;
        get diagnostics many = row_count;
        if many = cardinality(sequence_numbers) and many = cardinality(lock_tokens) then
            return query select number, null::text from unnest(sequence_numbers) as number;
            return;
        end if;
    end if;
    if pgqueue._is_dead_letter_queue(queue) then
        return query select * from pgqueue._settle_dead_letters('PIN', queue, sequence_numbers, lock_tokens);
        return;
    end if;
    select * into held from pgqueue._lock_proven(pgqueue._find_queue(queue, 'RECEIVE'), sequence_numbers, lock_tokens);
    return query select * from pgqueue._settlement_results(queue, sequence_numbers, held.proven, atomic => false);
end
$$;
