-- Returns how many slots of a queue with `max_concurrent` are taken, after freeing those of messages whose lock is over.
-- Settlements touch no slot: a slot is free when its token proves no lock any more; see pgqueue._held_locks. The lanes are read again:
-- a receive that has waited for another one may count a slot of a lane that was made meanwhile.
create or replace function pgqueue._slots_taken(queue pgqueue.queue)
returns integer
language plpgsql
as $$
declare
    taken record;
begin
    select array_agg(sequence_number) as numbers, array_agg(lock_token) as tokens into taken from pgqueue._slots(queue.id);
    if taken.numbers is null then
        return 0;
    end if;
    queue.fresh_lanes := (select known.fresh_lanes from pgqueue.queue as known where known.id = queue.id);
    taken := pgqueue._held_locks(queue, taken.numbers, taken.tokens);
    perform pgqueue._free_slots(queue, taken.numbers, taken.tokens);
    return cardinality(taken.numbers);
end
$$;
