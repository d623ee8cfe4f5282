-- Moves many locked messages to the dead letters of their queue; see pgqueue.dead_letter. `properties` and `error` apply
-- to all of them.
-- Returns  one row per lock, in the order given: sqlstate is null if the message was moved, else PQ001.
-- Raises   PQ001 lock lost, when atomic; PQ002 unknown queue; PQ007 invalid argument.
-- Locks    the messages, until the transaction ends.
create or replace function pgqueue.dead_letter_batch(
    queue            text,
    sequence_numbers bigint[],
    lock_tokens      uuid[],
    reason           text,
    description      text    default null,
    atomic           boolean default false,
    properties       jsonb   default null,
    error            jsonb   default null
)
returns table (sequence_number bigint, sqlstate text)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
    held   record;
begin
    if coalesce(reason, '') = '' then
        perform pgqueue._refuse_argument('reason', 'a text that is not empty', quote_nullable(reason));
    end if;
    perform pgqueue._check_properties(properties);
    perform pgqueue._check_error(error);
    select * into held from pgqueue._lock_proven(source, sequence_numbers, lock_tokens);
    if error is not null then
        perform pgqueue._record_error(source, message.sequence_number, delivery_count, locked_by, error)
           from pgqueue.message
          where ctid = any (held.places);
    end if;
    if properties is not null then
        held.places := pgqueue._merge_properties(held.places, properties);
    end if;
    perform pgqueue._free_slots_in_groups(source, held.places);
    perform pgqueue._move_to_dead_letters(
        source, held.places, reason, coalesce(description, pgqueue._error_line(error)));
    return query select * from pgqueue._settlement_results(queue, sequence_numbers, held.proven, atomic);
end
$$;
