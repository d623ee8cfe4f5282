-- Touches a locked message first, before any work is done for it: until the transaction ends nobody can take the
-- message over, even when `locked_until` passes, because claims skip locked rows.
-- Raises  PQ001 lock lost, PQ002 unknown queue.
-- Locks   the message, until the transaction ends.
create or replace function pgqueue.pin(queue text, sequence_number bigint, lock_token uuid)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if pgqueue._is_dead_letter_queue(queue) then
        perform pgqueue._settle_dead_letters('PIN', queue, array[sequence_number], array[lock_token], atomic => true);
    else
        perform pgqueue._pin(pgqueue._find_queue(queue), sequence_number, lock_token);
    end if;
end
$$;
