-- Renews the lock of a session, and with it those of its messages: it lasts `lock_duration` (the queue's own when null) from
-- now. While a transaction has written the session's state the session cannot be accepted, so its lock is not renewed, and
-- that transaction is not waited for.
-- Returns  the time until which the session is locked.
-- Raises   PQ002 unknown queue, PQ007 invalid argument, PQ020 session lock lost.
create or replace function pgqueue.renew_session_lock(
    queue text, session_id text, lock_token uuid, lock_duration interval default null)
returns timestamptz
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    source pgqueue.queue := pgqueue._find_session_queue(queue);
    until  timestamptz;
begin
    perform pgqueue._check_duration('lock_duration', lock_duration);
    until := pgqueue._renew_session(source, session_id, lock_token, lock_duration);
    if until is null then
        perform pgqueue._refuse_lost_session(source, session_id);
    end if;
    return until;
end
$$;
