-- Releases a session, so that others can accept it at once, behind the sessions that wait already. Messages of it that were
-- received and not settled are delivered again to its next holder; their deliveries have counted. A session that has
-- neither messages nor state is forgotten.
-- Returns  whether the session was released; false when its lock is lost, or a transaction that has written its state is
--          open: then its lock expires.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the session, until the transaction ends; does not wait.
create or replace function pgqueue.release_session(queue text, session_id text, lock_token uuid)
returns boolean
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    source pgqueue.queue := pgqueue._find_session_queue(queue);
begin
    return cardinality(pgqueue._release_sessions(source, array[session_id], array[lock_token])) > 0;
end
$$;
