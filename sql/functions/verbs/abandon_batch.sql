-- Gives many messages back: they are delivered again after `delay`, before the fresh messages and in the order they
-- were sent. The next delivery of each counts one more. `properties` are merged into their application properties.
-- Returns  one row per lock, in the order given: sqlstate is null if the message was abandoned, else PQ001.
-- Raises   PQ001 lock lost, when atomic; PQ002 unknown queue; PQ007 invalid argument.
-- Locks    the messages, until the transaction ends.
create or replace function pgqueue.abandon_batch(
    queue            text,
    sequence_numbers bigint[],
    lock_tokens      uuid[],
    delay            interval default null,
    properties       jsonb    default null,
    atomic           boolean  default false
)
returns table (sequence_number bigint, sqlstate text)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    source pgqueue.queue;
    held   record;
begin
    if delay < interval '0' or not isfinite(delay) then
        perform pgqueue._refuse_argument('delay', 'zero or positive', delay::text);
    end if;
    perform pgqueue._check_properties(properties);
    if pgqueue._is_dead_letter_queue(queue) then
        return query
            select *
              from pgqueue._settle_dead_letters(
                   'ABANDON', queue, sequence_numbers, lock_tokens, atomic,
                   until => pgqueue.clock() + nullif(delay, interval '0'), properties => properties);
        return;
    end if;
    source := pgqueue._find_queue(queue);
    select * into held from pgqueue._lock_proven(source, sequence_numbers, lock_tokens);
    if properties is not null then
        held.places := pgqueue._merge_properties(held.places, properties);
    end if;
    if delay > interval '0' then
        perform pgqueue._delay(held.places, pgqueue.clock() + delay);
    else
        perform pgqueue._redeliver(held.places, settled => true);
    end if;
    if source.awaited_until > pgqueue.clock() then
        perform pgqueue._notify(source);
    end if;
    return query select * from pgqueue._settlement_results(queue, sequence_numbers, held.proven, atomic);
end
$$;
