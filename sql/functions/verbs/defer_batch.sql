-- Sets many locked messages aside; see pgqueue.defer. `properties` are merged into their application properties.
-- Returns  one row per lock, in the order given: sqlstate is null if the message was deferred, else PQ001.
-- Raises   PQ001 lock lost, when atomic; PQ002 unknown queue; PQ007 invalid argument.
-- Locks    the messages, until the transaction ends.
create or replace function pgqueue.defer_batch(
    queue text, sequence_numbers bigint[], lock_tokens uuid[], properties jsonb default null, atomic boolean default false)
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
    perform pgqueue._check_properties(properties);
    select * into held from pgqueue._lock_proven(source, sequence_numbers, lock_tokens);
    perform pgqueue._free_slots_in_groups(source, held.places);
    update pgqueue.message
       set lane                   = 2 * pgqueue._priority(lane) + 1000,
           position               = nextval('pgqueue.sequence_number'),       -- with an id since it was locked; see pgqueue._pass_front
           delivery_count         = delivery_count - 1,
           locked_until           = null,
           lock_token             = null,
           locked_by              = null,
           application_properties = case when properties is null then application_properties
                                         else coalesce(application_properties, '{}') || properties end
     where ctid = any (held.places);
    perform pgqueue._pass_front(source.id, 'DEFERRED');
    return query select * from pgqueue._settlement_results(queue, sequence_numbers, held.proven, atomic);
end
$$;
