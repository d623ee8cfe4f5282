-- Returns those of these sessions that have no messages behind their cursors, by a snapshot of its own.
create or replace function pgqueue._empty_sessions(queue_id integer, session_ids text[])
returns text[]
language plpgsql
set enable_sort = off
as $$
#variable_conflict use_column
begin
    return array(
        select id
          from unnest(session_ids) as id
         cross join lateral (                           -- each by itself: see pgqueue._free_sessions
               select cursor from pgqueue.session where queue_id = _empty_sessions.queue_id and session_id = id limit 1) as known
          left join lateral (
               select true as is_there
                 from pgqueue.message
                where queue_id = _empty_sessions.queue_id and lane = 2000 and session_id <= id
                  and (session_id, position) > (id, known.cursor)
                order by session_id, position           -- see pgqueue._next_in_sessions
                limit 1) as next on true
         where is_there is null);
end
$$;
