-- Lets receivers look at sessions now that were to wait for a message which is gone, or for a clock that went back: those with
-- these ids, or all of the queue when null. Does not wait for who accepts one of them: for a session with an id, a row is added.
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
    held     text[];
    hastened text[];
begin
    if session_ids is null then
        places := array(
            select ctid
              from pgqueue.waiting_session
             where queue_id = _hasten_sessions.queue_id and available_at > pgqueue.clock()
               for no key update skip locked);
    else
        select array_agg(place) filter (where available_at > pgqueue.clock()), coalesce(array_agg(locked.session_id), '{}')
          into places, held
          from unnest(session_ids) as given (session_id)
         cross join lateral (                                 -- see pgqueue._announce_sessions
               select ctid as place, session_id, available_at
                 from pgqueue.waiting_session
                where queue_id = _hasten_sessions.queue_id and session_id between given.session_id and given.session_id
                order by session_id desc, changed_by desc
                limit 1
                  for no key update skip locked) as locked;
    end if;
    with moved as (
        update pgqueue.waiting_session
           set available_at = pgqueue.clock(), changed_by = pg_current_xact_id()
         where ctid = any (places)
        returning session_id)
    select array_agg(session_id) into hastened from moved;
    if cardinality(held) < cardinality(session_ids) then
        with added as (
            insert into pgqueue.waiting_session (queue_id, session_id, available_at)
            select _hasten_sessions.queue_id, waiting.session_id, pgqueue.clock()
              from unnest(session_ids) as given (session_id)
             cross join lateral (
                   select session_id
                     from pgqueue.waiting_session
                    where queue_id = _hasten_sessions.queue_id and session_id between given.session_id and given.session_id
                    order by session_id desc, changed_by desc
                    limit 1) as waiting
             where waiting.session_id <> all (held)
            returning session_id)
        select hastened || array_agg(session_id) into hastened from added;
    end if;
    return hastened;
end
$$;
