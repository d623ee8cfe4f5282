-- Returns whether a message of a session is locked: it was handed out under the lock that the session has now, and that lock
-- has not expired. The `locked_until` of such a message was true when it was handed out.
create or replace function pgqueue._is_held_in_session(message pgqueue.message)
returns boolean
language sql stable
set enable_seqscan = off
set enable_bitmapscan = off
as $$
    select exists (
        select
          from pgqueue.session as held
         where held.queue_id = message.queue_id and held.session_id = message.session_id
           and held.lock_token = message.lock_token and held.locked_until > pgqueue.clock());
$$;
