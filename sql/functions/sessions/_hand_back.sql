-- Lets others accept a session that was released, behind the sessions that wait already; an empty one is forgotten. If
-- another session holds its row among those that wait, perhaps to move it to the end of the lock that is over now, another row is
-- added. A sender's message may come: then the row is still there.
create or replace function pgqueue._hand_back(known pgqueue.session)
returns void
language plpgsql
set enable_sort = off
as $$
begin
    perform pgqueue._forget_session(known);
    update pgqueue.waiting_session
       set available_at = pgqueue.clock(), changed_by = pg_current_xact_id()
     where ctid = any (array(
               select ctid
                 from pgqueue.waiting_session
                where queue_id = known.queue_id and session_id between known.session_id and known.session_id
                order by session_id desc, changed_by desc     -- see pgqueue._announce_sessions
                limit 1
                  for no key update skip locked));
    if not found then
        insert into pgqueue.waiting_session (queue_id, session_id, available_at)
        select known.queue_id, known.session_id, pgqueue.clock()
         where exists (
               select
                 from pgqueue.waiting_session
                where queue_id = known.queue_id and session_id between known.session_id and known.session_id
                order by session_id desc, changed_by desc
                limit 1);
    end if;
end
$$;
