-- Returns from when on a free session has a message to be received: later than now when the first one was abandoned with a
-- delay, null when the session has none.
create or replace function pgqueue._next_delivery(free pgqueue.session)
returns timestamptz
language plpgsql
as $$
begin
    return (
        select case when lock_token is null and locked_until > pgqueue.clock() then least(locked_until, expires_at) else '-infinity' end
          from pgqueue.message
         where queue_id = free.queue_id and lane = 2000 and session_id <= free.session_id
           and (session_id, position) > (free.session_id, free.cursor)
         order by session_id, position               -- see pgqueue._next_in_session
         limit 1);
end
$$;
