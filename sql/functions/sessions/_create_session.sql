-- Creates the row of a session that was never accepted. Of two transactions that create the same row, the second
-- gives up instead of waiting for the first.
-- Returns  the session; null when there is one, or another transaction creates it.
-- Locks    the session, until the transaction ends; waits a millisecond for others.
create or replace function pgqueue._create_session(queue_id integer, session_id text)
returns pgqueue.session
language plpgsql
set lock_timeout = '1ms'
as $$
declare
    created pgqueue.session;
begin
    insert into pgqueue.session (queue_id, session_id, horizon_taken_at)
    values (_create_session.queue_id, _create_session.session_id, pgqueue.clock())
        on conflict on constraint session_pkey do nothing
    returning * into created;
    return created;
exception when lock_not_available then
    return null;
end
$$;
