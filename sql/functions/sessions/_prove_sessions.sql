-- Keeps of the messages whose rows are locked those whose lock is that of their session: the second half of the fence, see
-- pgqueue._lock_proven. The rows of the sessions are held with FOR KEY SHARE, so none is accepted before this
-- transaction ends.
-- Returns  the ctids of the messages, and which of the given locks they prove.
create or replace function pgqueue._prove_sessions(inout places tid[], inout proven bigint[])
language plpgsql
set enable_hashjoin = off
set enable_mergejoin = off
as $$
begin
    select coalesce(array_agg(place), '{}'), coalesce(array_agg(nth), '{}') into places, proven
      from (select given.place, given.nth
              from unnest(_prove_sessions.places, _prove_sessions.proven) as given (place, nth)
             cross join lateral (
                   select queue_id, session_id, lock_token
                     from pgqueue.message
                    where ctid = given.place
                    limit 1) as message                       -- each by itself: PostgreSQL 14 does not join by ctid
              join pgqueue.session using (queue_id, session_id)
             where session.lock_token = message.lock_token
               for key share of session) as held;
end
$$;
