-- Moves the cursors of those of these sessions whose next message lies behind much that was settled before; see
-- pgqueue._move_session_cursor.
create or replace function pgqueue._move_session_cursors(queue_id integer, session_ids text[])
returns void
language plpgsql
as $$
#variable_conflict use_column
declare
    known pgqueue.session;
    read  bigint;
begin
    for known in
        select held.*
          from unnest(session_ids) as id
         cross join lateral (                                -- each by itself: see pgqueue._free_sessions
               select * from pgqueue.session where queue_id = _move_session_cursors.queue_id and session_id = id limit 1) as held
    loop
        read := pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass);
        perform pgqueue._empty_sessions(known.queue_id, array[known.session_id]);        -- for what it reads
        if pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass) > read + 32 then
            perform pgqueue._move_session_cursor(known, reads_much => true);
        end if;
    end loop;
end
$$;
