-- Locks the next messages of a session, at most `max_messages`: the first ones that were not handed out under the session's
-- present lock. It ends before one that was abandoned with a delay, and before one that an open transaction holds, because
-- a successor must not come first.
--
-- Only message_session has the order by session and position; by an order that other indexes have, too, the planner takes any
-- of them when it believes that there are a few rows, and walks over all sessions.
-- Returns  the ctids of the rows, in the order of the session.
create or replace function pgqueue._next_in_session(held pgqueue.session, max_messages integer)
returns tid[]
language plpgsql
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
declare
    places tid[];
begin
    places := array(
        select ctid
          from pgqueue.message
         where queue_id = held.queue_id and lane = 2000 and session_id <= held.session_id
           and (session_id, position) > (held.session_id, held.cursor) and lock_token is distinct from held.lock_token
         order by session_id, position
         limit max_messages);
    return array(
        select place
          from (select place, nth, row_number() over (order by nth) as locked_nth
                  from (select given.place, given.nth
                          from unnest(places) with ordinality as given (place, nth)
                          join pgqueue.message on message.ctid = given.place
                         where lock_token is not null or locked_until is null or locked_until <= pgqueue.clock()
                           for update of message skip locked) as free) as numbered
         where nth = locked_nth
         order by nth);
end
$$;
