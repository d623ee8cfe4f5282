-- Releases many sessions at once; see pgqueue.release_session.
-- Returns  one row per lock, in the order given: whether the session was released.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the sessions, until the transaction ends; does not wait.
create or replace function pgqueue.release_session_batch(queue text, session_ids text[], lock_tokens uuid[])
returns table (session_id text, is_released boolean)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    source   pgqueue.queue := pgqueue._find_session_queue(queue);
    released bigint[];
begin
    perform pgqueue._check_session_locks(session_ids, lock_tokens);
    released := pgqueue._release_sessions(source, session_ids, lock_tokens);
    return query select id, nth = any (released) from unnest(session_ids) with ordinality as given (id, nth);
end
$$;
