-- Completes many messages at once. Each lock is checked by itself: a lost lock neither hides nor undoes the others,
-- unless the batch is atomic; an atomic batch raises, and the transaction cannot commit.
-- Returns  one row per lock, in the order given: sqlstate is null if the message was completed, else PQ001.
-- Raises   PQ001 lock lost, when atomic; PQ002 unknown queue; PQ007 invalid argument.
-- Locks    the messages, until the transaction ends.
create or replace function pgqueue.complete_batch(
    queue text, sequence_numbers bigint[], lock_tokens uuid[], atomic boolean default false)
returns table (sequence_number bigint, sqlstate text)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue;
    proven bigint[];
    held   record;
    in_sessions smallint;                    -- a variable, so that the key of the table is the way to a number
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    -- fast path: fresh messages of priority 0, the most frequent case
    if array_ndims(sequence_numbers) = 1 and cardinality(sequence_numbers) <= 100 then
        with gone as (
            delete from pgqueue.message
             where queue_id = (select id from pgqueue.queue
                                where name = complete_batch.queue and not records_settlements
                                  and pgqueue._may_receive(receivers))
               and lane = 1 and position = any (sequence_numbers)
               and lock_token = lock_tokens[array_position(sequence_numbers, position)]
            returning array_position(sequence_numbers, position) as nth)
        select array_agg(nth) into proven from gone;
        if cardinality(proven) = cardinality(sequence_numbers)
           and cardinality(proven) = cardinality(lock_tokens) then
            foreach sequence_number in array sequence_numbers loop
                return next;
            end loop;
            return;
        end if;
    end if;
    if pgqueue._is_dead_letter_queue(queue) then
        return query select * from pgqueue._settle_dead_letters('COMPLETE', queue, sequence_numbers, lock_tokens, atomic);
        return;
    end if;
    source := pgqueue._find_queue(queue, 'RECEIVE');
    if source.requires_session and not source.records_settlements then
        -- first deliveries in sessions, with which nothing has gone wrong yet; see pgqueue._prove_sessions
        in_sessions := 2000;
        with fresh as materialized (
            select place, nth
              from (select * from unnest(sequence_numbers, lock_tokens) with ordinality as given (number, token, nth) order by number) as lock
             cross join lateral (                     -- each by itself, as in pgqueue._lock_proven
                   select ctid as place, session_id
                     from pgqueue.message
                    where queue_id = source.id and lane = in_sessions and position between number and number
                      and sequence_number = position and delivery_count = 1 and lock_token = token
                      for update) as message
             cross join lateral (
                   select from pgqueue.session
                    where queue_id = source.id and session_id = message.session_id and lock_token = token
                      for key share) as session
        ), gone as (
            delete from pgqueue.message using fresh where message.ctid = place returning nth)
        select array_agg(nth) into proven from gone;
        if cardinality(proven) = cardinality(sequence_numbers) and cardinality(proven) = cardinality(lock_tokens) then
            return query select number, null::text from unnest(sequence_numbers) as number;
            return;
        end if;
    end if;
    select * into held from pgqueue._lock_proven(source, sequence_numbers, lock_tokens);
    perform pgqueue._free_slots_in_groups(source, held.places);
    perform pgqueue._delete_messages(source, held.places, 'COMPLETED');
    return query select * from pgqueue._settlement_results(queue, sequence_numbers, proven || held.proven, atomic);
end
$$;
