-- Announces that sessions get messages in this transaction: those that wait already are held with FOR KEY SHARE, so that
-- no session that finds one empty removes it before this transaction is over; for the others a row is added. A row that
-- another session is about to remove is skipped. So a sender does not wait, and two senders may each add a row for a session.
--
-- In a queue whose groups take turns, one that was set aside waits again at once: its messages are locked, but not the new one.
--
-- At REPEATABLE READ a row that was removed since the snapshot would fail the transaction: there a row is always added.
--
-- Rows are looked up in the order of their sessions, which only waiting_session_by_id has, so that the planner takes no other index.
-- The row that was changed last comes first: behind it lie its old versions, which no scan walks over.
-- Locks    the rows, until the transaction ends; receivers may move them meanwhile.
create or replace function pgqueue._announce_sessions(queue_id integer, session_ids text[])
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    ids     text[] := array(select distinct session_id from unnest(session_ids) as session_id);
    waiting text[] := '{}';
    is_fair boolean := (select fair from pgqueue.queue where id = _announce_sessions.queue_id);
begin
    if current_setting('transaction_isolation') = 'read committed' then
        waiting := array(
            select held.session_id
              from unnest(ids) as given (session_id)
             cross join lateral (
                   select session_id, available_at
                     from pgqueue.waiting_session
                    where queue_id = _announce_sessions.queue_id and session_id between given.session_id and given.session_id
                    order by session_id desc, changed_by desc
                    limit 1
                      for key share skip locked) as held
             where not is_fair or held.available_at <= pgqueue.clock());
        if is_fair and cardinality(waiting) < cardinality(ids) then
            waiting := waiting || pgqueue._hasten_sessions(
                _announce_sessions.queue_id, array(select id from unnest(ids) as id where id <> all (waiting)));
        end if;
    end if;
    if cardinality(waiting) < cardinality(ids) then
        insert into pgqueue.waiting_session (queue_id, session_id, available_at)
        select _announce_sessions.queue_id, id, pgqueue.clock()                                 -- the clock goes on meanwhile
          from unnest(ids) as id
         where id <> all (waiting);
    end if;
end
$$;
