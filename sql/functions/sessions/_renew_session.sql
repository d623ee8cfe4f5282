-- Renews the lock of a session that the token proves; see pgqueue.renew_session_lock.
-- Returns  the time until which it is locked; null when the lock is lost.
create or replace function pgqueue._renew_session(queue pgqueue.queue, session_id text, lock_token uuid, lock_duration interval)
returns timestamptz
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    update pgqueue.session
       set locked_until = pgqueue.clock() + coalesce(_renew_session.lock_duration, queue.lock_duration)
     where ctid = any (array(
               select ctid
                 from pgqueue.session
                where queue_id = queue.id and session_id = _renew_session.session_id and lock_token = _renew_session.lock_token
                  for no key update skip locked));
    return (
        select locked_until
          from pgqueue.session
         where queue_id = queue.id and session_id = _renew_session.session_id and lock_token = _renew_session.lock_token);
end
$$;
