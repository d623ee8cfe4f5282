-- Completes many messages at once. Each lock is proved by itself; one that is lost neither hides nor undoes the
-- others, unless the batch is atomic: then it raises, and the transaction cannot commit.
-- Returns  a row a lock, in the order given: sqlstate is null when it was completed, else PQ001.
-- Raises   PQ001 lock lost, when atomic; PQ002 unknown queue; PQ007 invalid argument.
-- Locks    the messages, until the transaction ends.
create or replace function pgqueue.complete_batch(
    queue text, sequence_numbers bigint[], lock_tokens uuid[], atomic boolean default false)
returns table (sequence_number bigint, sqlstate text)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue;
    proven bigint[];
    held   record;
begin
    select * into source from pgqueue.queue where name = complete_batch.queue;
    if not found then
        perform pgqueue._refuse_unknown_queue(queue);
    end if;
    if cardinality(sequence_numbers) is distinct from cardinality(lock_tokens) then
        perform pgqueue._check_locks(sequence_numbers, lock_tokens);
    end if;
    with gone as (                       -- the fresh ones, by far the most, without a detour through pgqueue._hold
        delete from pgqueue.message
         using unnest(sequence_numbers, lock_tokens) with ordinality as lock (number, token, nth)
         where queue_id = source.id and lane = any (source.fresh_lanes) and position = any (sequence_numbers)
           and position = number and lock_token = token
        returning nth)
    select array_agg(nth) into proven from gone;
    if cardinality(proven) = cardinality(sequence_numbers) then
        return query select number, null::text from unnest(sequence_numbers) as number;
        return;
    end if;
    select * into held from pgqueue._hold(source, sequence_numbers, lock_tokens);
    delete from pgqueue.message where ctid = any (held.places);
    return query select * from pgqueue._settlements(queue, sequence_numbers, proven || held.proven, atomic);
end
$$;
