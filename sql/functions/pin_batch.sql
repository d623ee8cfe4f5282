-- Proves many locks and holds their rows, as pgqueue.pin does one: until the transaction ends nobody can take these
-- messages over. A lock that is lost neither hides nor undoes the others.
-- Returns  a row a lock, in the order given: sqlstate is null when it is held, else PQ001.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the messages, until the transaction ends.
create or replace function pgqueue.pin_batch(queue text, sequence_numbers bigint[], lock_tokens uuid[])
returns table (sequence_number bigint, sqlstate text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    held record;
begin
    if pgqueue._is_dead_letter_queue(queue) then
        return query select * from pgqueue._settle_dead_letters('PIN', queue, sequence_numbers, lock_tokens);
        return;
    end if;
    select * into held from pgqueue._hold(pgqueue._find_queue(queue), sequence_numbers, lock_tokens);
    return query select * from pgqueue._settlements(queue, sequence_numbers, held.proven, atomic => false);
end
$$;
