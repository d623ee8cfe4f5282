-- Locks the row of a session that nobody holds, and creates it if there is none. The advisory lock is there because two who
-- create the same row would wait for each other.
-- Returns  the session; null when somebody holds it, is accepting it just now, or has a transaction open in which a message
--          of it was settled.
-- Locks    the session, until the transaction ends; waits for nobody.
create or replace function pgqueue._free_session(queue_id integer, session_id text)
returns pgqueue.session
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    known pgqueue.session;
begin
    if not pg_try_advisory_xact_lock(hashtextextended(format('pgqueue.session %s %s', _free_session.queue_id, _free_session.session_id), 0)) then
        return null;
    end if;
    select * into known
      from pgqueue.session
     where queue_id = _free_session.queue_id and session_id = _free_session.session_id
       and (locked_until is null or locked_until <= pgqueue.clock())      -- the row of a holder is not even locked
       for update skip locked;
    if found then
        return known;
    end if;
    insert into pgqueue.session (queue_id, session_id, horizon_taken_at)
    select _free_session.queue_id, _free_session.session_id, pgqueue.clock()
     where not exists (
           select from pgqueue.session where queue_id = _free_session.queue_id and session_id = _free_session.session_id)
        on conflict on constraint session_pkey do nothing
    returning * into known;
    return known;
end
$$;
