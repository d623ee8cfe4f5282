-- Removes the newest row of each of these sessions, which were found empty, among those that wait; a later transaction that
-- finds another one removes that. A row that a sender holds stays, because its message may come. Messages are looked for once
-- more after the rows were locked, with a new snapshot, which sees what was committed by any sender that held a row before.
-- An older snapshot proves nothing.
--
-- A transaction must not lock a row FOR UPDATE that it has updated: senders that follow it to its new version would wait,
-- in spite of SKIP LOCKED.
-- Returns  the sessions that are still empty.
-- Locks    the rows; skips those that others hold.
create or replace function pgqueue._forget_waiting(queue_id integer, session_ids text[])
returns text[]
language plpgsql
set enable_sort = off
as $$
#variable_conflict use_column
declare
    waiting record;
begin
    select array_agg(place) as places, array_agg(id) as ids into waiting
      from unnest(session_ids) as id
     cross join lateral (
           select ctid as place
             from pgqueue.waiting_session
            where queue_id = _forget_waiting.queue_id and session_id between id and id and changed_by <> pg_current_xact_id()
            order by session_id desc, changed_by desc   -- see pgqueue._announce_sessions
            limit 1
              for update skip locked) as newest;
    session_ids := pgqueue._empty_sessions(_forget_waiting.queue_id, session_ids);
    if current_setting('transaction_isolation') = 'read committed' then
        delete from pgqueue.waiting_session
         where ctid = any (array(
                   select place
                     from unnest(waiting.places, waiting.ids) as held (place, id)
                     join unnest(session_ids) as empty (id) using (id)));
    end if;
    return session_ids;
end
$$;
