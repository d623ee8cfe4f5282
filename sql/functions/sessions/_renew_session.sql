-- Renews the lock of a session that the token proves; see pgqueue.renew_session_lock. One that is to end earlier than before is
-- looked at again from now on: if it expires, others need not wait for the end that it had.
-- Returns  the time until which it is locked; null when the lock is lost.
create or replace function pgqueue._renew_session(queue pgqueue.queue, session_id text, lock_token uuid, lock_duration interval)
returns timestamptz
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    renewed_until timestamptz := pgqueue.clock() + coalesce(_renew_session.lock_duration, queue.lock_duration);
    held          record;
begin
    select ctid as place, locked_until
      into held
      from pgqueue.session
     where queue_id = queue.id and session_id = _renew_session.session_id and lock_token = _renew_session.lock_token
       for no key update skip locked;
    update pgqueue.session set locked_until = renewed_until where ctid = held.place;
    if renewed_until < held.locked_until then
        perform pgqueue._hasten_sessions(queue.id, array[_renew_session.session_id]);
    end if;
    return (
        select locked_until
          from pgqueue.session
         where queue_id = queue.id and session_id = _renew_session.session_id and lock_token = _renew_session.lock_token);
end
$$;
