-- Renews the locks of the sessions that hold these messages; see pgqueue.renew_lock_batch.
-- Returns  one row per lock, in the order given: sqlstate is null and locked_until set if the lock is held, else PQ001.
-- Raises   PQ020 session lock lost or PQ001 lock lost, when atomic.
create or replace function pgqueue._renew_by_messages(
    queue pgqueue.queue, sequence_numbers bigint[], lock_tokens uuid[], lock_duration interval, atomic boolean)
returns table (sequence_number bigint, sqlstate text, locked_until timestamptz)
language plpgsql
as $$
#variable_conflict use_column
declare
    proven bigint[];
    until  timestamptz[];
begin
    with held as materialized (
        select nth, session_id, token
          from unnest(sequence_numbers, lock_tokens) with ordinality as asked (number, token, nth)
          join pgqueue._find_by_token(queue, sequence_numbers, lock_tokens) as found
            on found.sequence_number = number        -- pgqueue._renew_session proves the token
    ), renewed as materialized (
        select session_id, token, pgqueue._renew_session(queue, session_id, token, _renew_by_messages.lock_duration) as until
          from (select distinct session_id, token from held) as session)
    select array_agg(nth), array_agg(renewed.until)
      into proven, until
      from held
      join renewed using (session_id, token)
     where renewed.until is not null;
    return query
        select outcome.sequence_number, outcome.sqlstate, until[array_position(proven, nth)]
          from pgqueue._settlement_results(queue.name, sequence_numbers, coalesce(proven, '{}'), atomic)
               with ordinality as outcome (sequence_number, sqlstate, nth)
         order by nth;
end
$$;
