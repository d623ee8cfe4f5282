-- Locks the next messages of sessions, at most so many of each: the first ones that were not handed out under the session's
-- present lock. It ends before one that was abandoned with a delay, and before one that an open transaction holds, because
-- a successor must not come first.
--
-- Only message_session has the order by session and position; by an order that other indexes have, too, the planner takes any
-- of them when it believes that there are a few rows, and walks over all sessions.
-- Returns  the ctids of the rows, session by session, in the order of each.
create or replace function pgqueue._next_in_sessions(
    queue_id integer, session_ids text[], lock_tokens uuid[], cursors bigint[], max_messages integer[])
returns tid[]
language plpgsql
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    next record;
begin
    select array_agg(place) as places, array_agg(held.nth) as sessions, array_agg(next.nth) as nths into next
      from unnest(session_ids, lock_tokens, cursors, max_messages) with ordinality as held (session_id, lock_token, cursor, most, nth)
     cross join lateral (
           select place, row_number() over () as nth
             from (select ctid as place
                     from pgqueue.message
                    where queue_id = _next_in_sessions.queue_id and lane = 2000 and session_id <= held.session_id
                      and (session_id, position) > (held.session_id, held.cursor) and lock_token is distinct from held.lock_token
                    order by session_id, position
                    limit held.most) as ordered) as next;
    return array(
        select place
          from (select place, given_nth, nth, row_number() over (partition by session order by nth) as locked_nth
                  from (select given.place, given.session, given.nth, given.given_nth
                          from unnest(next.places, next.sessions, next.nths) with ordinality as given (place, session, nth, given_nth)
                          join pgqueue.message on message.ctid = given.place
                         where lock_token is not null or locked_until is null or locked_until <= pgqueue.clock()
                           for update of message skip locked) as free) as numbered
         where nth = locked_nth
         order by given_nth);
end
$$;
