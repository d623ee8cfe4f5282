-- Moves the cursor of a session, at most once a second: receives of the session begin there, and do not walk over what was
-- settled before. It follows the horizon, which was read at least a second ago, once every transaction that could have drawn
-- a smaller number is over; and stops before the first message. Where a call reads much that was settled before, the horizon is
-- taken at once.
-- Locks    the session's row; skips it if a transaction has written the session's state.
create or replace function pgqueue._move_session_cursor(held pgqueue.session, reads_much boolean default false)
returns void
language plpgsql
set enable_sort = off
as $$
#variable_conflict use_column
declare
    moment      timestamptz := pgqueue.clock();
    last_number bigint      := pgqueue._last_number_drawn();
    next_xid    xid8;
    reached     bigint      := held.cursor;
begin
    if current_setting('transaction_isolation') <> 'read committed'
       or abs(extract(epoch from moment - held.horizon_taken_at)) < 1 and not (reads_much and held.horizon = 0) then
        return;
    end if;
    next_xid := pgqueue._next_xid();
    if held.horizon > last_number then                    -- the sequence went back: everything is looked through again
        reached := 0;
    elsif pg_snapshot_xmin(pg_current_snapshot()) >= held.horizon_xid then
        reached := coalesce(
            (select least(held.horizon, position - 1)
               from pgqueue.message
              where queue_id = held.queue_id and lane = 2000 and session_id <= held.session_id
                and (session_id, position) > (held.session_id, held.cursor)
              order by session_id, position          -- see pgqueue._next_in_sessions
              limit 1),
            held.horizon);
    elsif held.horizon_xid <= next_xid then                -- else it is of another cluster: the horizon is taken again
        last_number := held.horizon;                      -- a transaction is not over: ask again in a second
        next_xid    := held.horizon_xid;
    end if;
    update pgqueue.session
       set cursor = reached, horizon = last_number, horizon_xid = next_xid, horizon_taken_at = moment
     where ctid = any (array(
               select ctid
                 from pgqueue.session
                where queue_id = held.queue_id and session_id = held.session_id
                  for no key update skip locked));
end
$$;
