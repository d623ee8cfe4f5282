-- Settles dead letters that are locked; each lock is proved by its token.
--
--   COMPLETE  deletes them
--   ABANDON   records the error, if given, and makes them available again, after `until` if given
--   RELEASE   does the same at once, without counting the delivery
--   RENEW     locks them until `until`
--   PIN       holds their rows until the transaction ends
--
-- Returns  one row per lock, in the order given: sqlstate is null if the lock was proven, else PQ001.
-- Raises   PQ001 lock lost, when atomic; PQ002 unknown queue; PQ007 invalid argument.
-- Locks    the dead letters, until the transaction ends.
create or replace function pgqueue._settle_dead_letters(
    verb             text,
    queue            text,
    sequence_numbers bigint[],
    lock_tokens      uuid[],
    atomic           boolean     default false,
    until            timestamptz default null,
    properties       jsonb       default null,
    error            jsonb       default null
)
returns table (sequence_number bigint, sqlstate text)
language plpgsql
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(pgqueue._dead_letters_of(queue), 'RECEIVE');
    held   record;
begin
    select * into held
      from pgqueue._lock_dead_letters(source, sequence_numbers, lock_tokens, renewal => verb = 'RENEW');
    perform pgqueue._record_error(source, sequence_number, delivery_count, locked_by, error)
       from pgqueue.dead_letter
      where error is not null and ctid = any (held.places);
    case verb
        when 'COMPLETE' then
            perform pgqueue._forget_failures(
                source.id, array(select sequence_number from pgqueue.dead_letter where ctid = any (held.places)));
            delete from pgqueue.dead_letter where ctid = any (held.places);
        when 'ABANDON', 'RELEASE' then
            update pgqueue.dead_letter
               set locked_until           = until,
                   lock_token             = case when until is not null then gen_random_uuid() end,  -- unknown
                   locked_by              = null,
                   delivery_count         = delivery_count - (verb = 'RELEASE')::integer,
                   application_properties = case when properties is null then application_properties
                                                 else coalesce(application_properties, '{}') || properties end
             where ctid = any (held.places);
            perform set_config('pgqueue.dead_letters_' || source.id, '', false);      -- the next receive begins at the front
        when 'RENEW' then
            update pgqueue.dead_letter set locked_until = until where ctid = any (held.places);
        when 'PIN' then
            null;
    end case;
    return query select * from pgqueue._settlement_results(queue, sequence_numbers, held.proven, atomic);
end
$$;
