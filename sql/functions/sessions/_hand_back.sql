-- Lets others accept sessions that were released, behind the sessions that wait already; empty ones are forgotten. If
-- another session holds the row of one among those that wait, perhaps to move it to the end of the lock that is over now, another
-- row is added. A sender's message may come: then the row is still there.
create or replace function pgqueue._hand_back(queue_id integer, session_ids text[])
returns void
language plpgsql
set enable_sort = off
as $$
#variable_conflict use_column
declare
    empty text[] := pgqueue._empty_sessions(_hand_back.queue_id, session_ids);
    moved bigint;
begin
    if empty <> '{}' then
        perform pgqueue._forget_sessions(_hand_back.queue_id, empty);
    end if;
    update pgqueue.waiting_session
       set available_at = pgqueue.clock(), changed_by = pg_current_xact_id()
     where ctid = any (array(
               select place
                 from unnest(session_ids) as id
                cross join lateral (
                      select ctid as place
                        from pgqueue.waiting_session
                       where queue_id = _hand_back.queue_id and session_id between id and id
                       order by session_id desc, changed_by desc     -- see pgqueue._announce_sessions
                       limit 1
                         for no key update skip locked) as newest));
    get diagnostics moved = row_count;
    if moved < cardinality(session_ids) then
        insert into pgqueue.waiting_session (queue_id, session_id, available_at)
        select _hand_back.queue_id, id, pgqueue.clock()
          from unnest(session_ids) as id
         cross join lateral (
               select changed_by
                 from pgqueue.waiting_session
                where queue_id = _hand_back.queue_id and session_id between id and id
                order by session_id desc, changed_by desc
                limit 1) as newest
         where changed_by <> pg_current_xact_id();           -- which this transaction has not moved
    end if;
end
$$;
