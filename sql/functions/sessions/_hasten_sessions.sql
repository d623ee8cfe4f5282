-- Lets receivers look at sessions now that were to wait for a message which is gone, or for a clock that went back: those with
-- these ids, or all of the queue when null. Does not wait for who accepts one.
-- Returns  the sessions that had to wait, and need not now.
create or replace function pgqueue._hasten_sessions(queue_id integer, session_ids text[] default null)
returns text[]
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
    places   tid[];
    hastened text[];
begin
    if session_ids is null then
        places := array(
            select ctid
              from pgqueue.waiting_session
             where queue_id = _hasten_sessions.queue_id and available_at > pgqueue.clock()
               for no key update skip locked);
    else
        places := array(
            select place
              from unnest(session_ids) as given (session_id)
             cross join lateral (                             -- see pgqueue._announce_sessions
                   select ctid as place, available_at
                     from pgqueue.waiting_session
                    where queue_id = _hasten_sessions.queue_id and session_id between given.session_id and given.session_id
                    order by session_id desc, changed_by desc
                    limit 1
                      for no key update skip locked) as held
             where available_at > pgqueue.clock());
    end if;
    with moved as (
        update pgqueue.waiting_session
           set available_at = pgqueue.clock(), changed_by = pg_current_xact_id()
         where ctid = any (places)
        returning session_id)
    select array_agg(session_id) into hastened from moved;
    return hastened;
end
$$;
