-- Renews many locks: each lasts `lock_duration` (the queue's own when null) from now.
--
-- A message whose row is held by an open transaction, its owner's as a rule, needs no renewal: nobody can take it
-- over meanwhile. It is reported as held, its locked_until unchanged, and its owner is not waited for.
-- Returns  a row a lock, in the order given: sqlstate is null and locked_until set when it is held, else PQ001.
-- Raises   PQ001 lock lost, when atomic; PQ002 unknown queue; PQ007 invalid argument.
create or replace function pgqueue.renew_lock_batch(
    queue            text,
    sequence_numbers bigint[],
    lock_tokens      uuid[],
    lock_duration    interval default null,
    atomic           boolean  default false
)
returns table (sequence_number bigint, sqlstate text, locked_until timestamptz)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    source  pgqueue.queue := pgqueue._find_queue(queue);
    renewed timestamptz   := pgqueue.clock() + coalesce(renew_lock_batch.lock_duration, source.lock_duration);
    held    tid[];
    settled bigint[];
begin
    if renew_lock_batch.lock_duration <= interval '0' then
        perform pgqueue._refuse_argument('lock_duration', 'positive', renew_lock_batch.lock_duration::text);
    end if;
    held := pgqueue._hold(source, sequence_numbers, lock_tokens, wait => false);
    update pgqueue.message set locked_until = renewed where ctid = any (held);
    settled := array(select lock.sequence_number from pgqueue._locks(source, sequence_numbers, lock_tokens) as lock);
    return query
        select outcome.sequence_number, outcome.sqlstate, lock.locked_until
          from pgqueue._settlements(queue, sequence_numbers, settled, atomic)
               with ordinality as outcome (sequence_number, sqlstate, nth)
          left join pgqueue._locks(source, sequence_numbers, lock_tokens) as lock
            on lock.sequence_number = outcome.sequence_number and outcome.sqlstate is null
         order by nth;
end
$$;
