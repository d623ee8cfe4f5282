-- Moves many locked messages to the dead letters of their queue.
-- Returns  one row per lock, in the order given: sqlstate is null if the message was moved, else PQ001.
-- Raises   PQ001 lock lost, when atomic; PQ002 unknown queue; PQ007 invalid argument.
-- Locks    the messages, until the transaction ends.
create or replace function pgqueue.dead_letter_batch(
    queue            text,
    sequence_numbers bigint[],
    lock_tokens      uuid[],
    reason           text,
    description      text    default null,
    atomic           boolean default false
)
returns table (sequence_number bigint, sqlstate text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue);
    held   record;
begin
    if coalesce(reason, '') = '' then
        perform pgqueue._refuse_argument('reason', 'a text that is not empty', quote_nullable(reason));
    end if;
    select * into held from pgqueue._lock_proven(source, sequence_numbers, lock_tokens);
    perform pgqueue._move_to_dead_letters(source, held.places, reason, description);
    return query select * from pgqueue._settlement_results(queue, sequence_numbers, held.proven, atomic);
end
$$;
