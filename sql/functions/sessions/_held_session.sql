-- Returns the session whose lock is proved by its token, and holds its row with FOR KEY SHARE: until the transaction ends
-- the session is not accepted. As with messages the token decides, not the clock.
-- Raises   PQ020 session lock lost.
-- Locks    the session; waits only for a session that is accepting it just now.
create or replace function pgqueue._held_session(queue pgqueue.queue, session_id text, lock_token uuid)
returns pgqueue.session
language plpgsql
as $$
#variable_conflict use_column
declare
    held pgqueue.session;
begin
    select * into held
      from pgqueue.session
     where queue_id = queue.id and session_id = _held_session.session_id and lock_token = _held_session.lock_token
       for key share;
    if not found then
        perform pgqueue._refuse_lost_session(queue, _held_session.session_id);
    end if;
    return held;
end
$$;
