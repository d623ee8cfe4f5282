-- Releases a session, so that others can accept it at once, behind the sessions that wait already. Messages of it that were
-- received and not settled are delivered again to its next holder; their deliveries have counted. A session that has
-- neither messages nor state is forgotten.
-- Returns  whether the session was released; false when its lock is lost, or a transaction that has written its state is
--          open: then its lock expires.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the session, until the transaction ends; does not wait.
create or replace function pgqueue.release_session(queue text, session_id text, lock_token uuid)
returns boolean
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    source   pgqueue.queue := pgqueue._find_session_queue(queue);
    released pgqueue.session;
begin
    update pgqueue.session
       set lock_token = null, locked_until = null, locked_by = null
     where ctid = any (array(
               select ctid
                 from pgqueue.session
                where queue_id = source.id and session_id = release_session.session_id
                  and lock_token = release_session.lock_token
                  for no key update skip locked))
    returning * into released;
    if not found then
        return false;
    end if;
    perform pgqueue._hand_back(released);
    if source.awaited_until > pgqueue.clock() then
        perform pgqueue._notify(source);
    end if;
    return true;
end
$$;
