-- Returns the position to which the cursor of a group can move: just before the group's first message, but not beyond the horizon.
create or replace function pgqueue._passed_in_group(waiting pgqueue.waiting_session)
returns bigint
language plpgsql stable
as $$
begin
    return least(waiting.horizon, (
        select position - 1
          from pgqueue.message
         where queue_id = waiting.queue_id and lane = 2000 and session_id <= waiting.session_id
           and (session_id, position) > (waiting.session_id, waiting.cursor)
         order by session_id, position                       -- see pgqueue._next_in_sessions
         limit 1));
end
$$;
