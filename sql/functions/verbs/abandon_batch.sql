-- Gives many messages back: they are delivered again after `delay`, before the fresh messages and in the order they
-- were sent. The next delivery of each counts one more. `properties` are merged into their application properties. An
-- `error` is kept with each, and those that were delivered as often as their queue allows are dead-lettered, as
-- pgqueue.abandon does.
-- Returns  one row per lock, in the order given: sqlstate is null if the message was abandoned, else PQ001.
-- Raises   PQ001 lock lost, when atomic; PQ002 unknown queue; PQ007 invalid argument.
-- Locks    the messages, until the transaction ends.
create or replace function pgqueue.abandon_batch(
    queue            text,
    sequence_numbers bigint[],
    lock_tokens      uuid[],
    delay            interval default null,
    properties       jsonb    default null,
    atomic           boolean  default false,
    error            jsonb    default null
)
returns table (sequence_number bigint, sqlstate text)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue;
    held   record;
    spent  tid[];
begin
    perform pgqueue._check_duration('delay', delay, even_zero => true);
    perform pgqueue._check_properties(properties);
    perform pgqueue._check_error(error);
    if pgqueue._is_dead_letter_queue(queue) then
        return query
            select *
              from pgqueue._settle_dead_letters(
                   'ABANDON', queue, sequence_numbers, lock_tokens, atomic,
                   until => pgqueue.clock() + nullif(delay, interval '0'), properties => properties,
                   error => error);
        return;
    end if;
    source := pgqueue._find_queue(queue, 'RECEIVE');
    select * into held from pgqueue._lock_proven(source, sequence_numbers, lock_tokens);
    if error is not null then
        perform pgqueue._record_error(source, message.sequence_number, delivery_count, locked_by, error)
           from pgqueue.message
          where ctid = any (held.places);
    end if;
    if properties is not null then
        held.places := pgqueue._merge_properties(held.places, properties);
    end if;
    perform pgqueue._release_groups(source, held.places);
    spent := pgqueue._exhausted(source, held.places);
    if spent <> '{}' then
        perform pgqueue._move_exhausted(source, spent, ended => 'was abandoned');
        held.places := array(select ctid from pgqueue.message where ctid = any (held.places));
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
