-- Gives many messages back, to be delivered again after `delay`, before the fresh ones and in the order they were
-- sent. The next delivery of each counts one more. `properties` are merged into their application properties.
-- Returns  a row a lock, in the order given: sqlstate is null when it was abandoned, else PQ001.
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
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    held    tid[] := pgqueue._hold(pgqueue._find_queue(queue), sequence_numbers, lock_tokens);
    settled bigint[];
begin
    if delay < interval '0' then
        perform pgqueue._refuse_argument('delay', 'zero or positive', delay::text);
    end if;
    if jsonb_typeof(properties) <> 'object' then
        perform pgqueue._refuse_argument('properties', 'a JSON object', properties::text);
    end if;
    if properties is not null then
        update pgqueue.message
           set application_properties = coalesce(application_properties, '{}') || properties
         where ctid = any (held);
        held := pgqueue._hold(pgqueue._find_queue(queue), sequence_numbers, lock_tokens);
    end if;
    if delay > interval '0' then
        settled := pgqueue._put_off(held, pgqueue.clock() + delay);
    else
        settled := pgqueue._bring_back(held, settled => true);
    end if;
    return query select * from pgqueue._settlements(queue, sequence_numbers, settled, atomic);
end
$$;
