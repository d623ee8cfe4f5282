-- Renews many locks: each lasts `lock_duration` (the queue's own when null) from now.
--
-- A message whose row an open transaction holds, usually that of its owner, needs no renewal: it is not delivered again
-- meanwhile. It is reported as held, its locked_until unchanged, and that transaction is not waited for. The lock of a
-- message of a session is that of the session, which is renewed.
-- Returns  one row per lock, in the order given: sqlstate is null and locked_until set if the lock is held, else PQ001.
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
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    source  pgqueue.queue;
    moment  timestamptz := pgqueue.clock();
    renewed timestamptz;
    many    integer;
    places  tid[];
    proven  bigint[];
    ends    timestamptz[];
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    if renew_lock_batch.lock_duration is not null then
        perform pgqueue._check_duration('lock_duration', renew_lock_batch.lock_duration);
    end if;
    if array_ndims(sequence_numbers) = 1 and cardinality(sequence_numbers) <= 100 then     -- fast path, as in pgqueue.renew_lock
        with prolonged as (
            update pgqueue.message
               set locked_until = free.until
              from (select held.place, moment + coalesce(renew_lock_batch.lock_duration, source.lock_duration) as until
                      from pgqueue.queue as source
                     cross join lateral (                     -- by itself: a join may read the lanes of all queues
                           select message.ctid as place
                             from pgqueue.message
                            where queue_id = source.id
                              and lane = 1 and position = any (sequence_numbers)
                              and lock_token = lock_tokens[array_position(sequence_numbers, position)]
                              and locked_until < moment + coalesce(renew_lock_batch.lock_duration, source.lock_duration)
                              for update of message skip locked) as held
                     where name = renew_lock_batch.queue and pgqueue._may_receive(receivers)) as free
             where ctid = place
            returning locked_until)
        select count(*), max(prolonged.locked_until) into many, renewed from prolonged;
        if many = cardinality(sequence_numbers) and many = cardinality(lock_tokens) then
            return query select number, null::text, renewed from unnest(sequence_numbers) as number;
            return;
        end if;
    end if;
    if pgqueue._is_dead_letter_queue(queue) then
        source  := pgqueue._find_queue(pgqueue._dead_letters_of(queue), 'RECEIVE');
        renewed := moment + coalesce(renew_lock_batch.lock_duration, source.lock_duration);
        perform pgqueue._settle_dead_letters('RENEW', queue, sequence_numbers, lock_tokens, until => renewed);
        select array_agg(nth), array_agg(dead_letter.locked_until)
          into proven, ends
          from unnest(sequence_numbers, lock_tokens) with ordinality as asked (number, token, nth)
          join pgqueue.dead_letter on queue_id = source.id and sequence_number = number and lock_token = token;
    else
        source  := pgqueue._find_queue(queue, 'RECEIVE');
        renewed := moment + coalesce(renew_lock_batch.lock_duration, source.lock_duration);
        perform pgqueue._check_locks(sequence_numbers, lock_tokens);
        if source.requires_session then
            return query
                select * from pgqueue._renew_by_messages(source, sequence_numbers, lock_tokens, renew_lock_batch.lock_duration, atomic);
            return;
        end if;
        places := pgqueue._lock_unheld(source, sequence_numbers, lock_tokens);
        if source.fair then
            perform pgqueue._release_groups(source, array(       -- those whose locks end sooner
                select ctid from pgqueue.message where ctid = any (places) and locked_until > renewed));
        end if;
        perform pgqueue._extend_locks(places, renewed);
        perform pgqueue._notify_early(source, renew_lock_batch.lock_duration);
        select array_agg(nth), array_agg(lock.locked_until)
          into proven, ends
          from unnest(sequence_numbers, lock_tokens) with ordinality as asked (number, token, nth)
          join pgqueue._find_by_token(source, sequence_numbers, lock_tokens) as lock
            on lock.sequence_number = number and lock.lock_token = token;
    end if;
    return query
        select outcome.sequence_number, outcome.sqlstate, held.until
          from pgqueue._settlement_results(queue, sequence_numbers, coalesce(proven, '{}'), atomic)
               with ordinality as outcome (sequence_number, sqlstate, nth)
          left join unnest(proven, ends) as held (nth, until) using (nth)
         order by nth;
end
$$;
