-- Returns the state of a session. With a `lock_token` it proves that the caller holds the session; without one, anybody who
-- may receive from the queue looks at it.
-- Returns  one row, of nulls if the session has no state.
-- Raises   PQ002 unknown queue, PQ007 invalid argument, PQ020 session lock lost.
create or replace function pgqueue.get_session_state(queue text, session_id text, lock_token uuid default null)
returns table (state jsonb, binary_state bytea)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_session_queue(queue);
begin
    if get_session_state.lock_token is not null
       and not exists (
           select
             from pgqueue.session
            where queue_id = source.id and session_id = get_session_state.session_id
              and lock_token = get_session_state.lock_token) then
        perform pgqueue._refuse_lost_session(source, get_session_state.session_id);
    end if;
    return query
        select session.state, session.binary_state
          from (select) as one
          left join pgqueue.session on queue_id = source.id and session.session_id = get_session_state.session_id;
end
$$;
