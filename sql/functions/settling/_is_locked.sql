-- Returns  whether a receiver has a message that is not scheduled: it has a lock that has not expired, its own or that
--          of its session.
create or replace function pgqueue._is_locked(message pgqueue.message, requires_session boolean, moment timestamptz)
returns boolean
language sql stable
return case when requires_session then pgqueue._is_held_in_session(message)
            else coalesce(message.locked_until > moment, false) end;
