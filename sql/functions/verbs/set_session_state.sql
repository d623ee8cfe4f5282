-- Sets the state of a session that the caller holds, as JSON or as bytes; without either, the session has no state any more.
-- Called in the transaction that completes messages of the session, the state changes with them, or not at all. The state
-- stays when the session has no messages, until it is set to none.
-- Raises  PQ002 unknown queue; PQ005 state too large, when it has more than 256 KiB; PQ007 invalid argument; PQ020 session
--         lock lost.
-- Locks   the session, until the transaction ends: it cannot be accepted meanwhile.
create or replace function pgqueue.set_session_state(
    queue text, session_id text, lock_token uuid, state jsonb default null, binary_state bytea default null)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_session_queue(queue);
    size   bigint        := octet_length(coalesce(set_session_state.binary_state, convert_to(set_session_state.state::text, 'UTF8')));
begin
    if num_nonnulls(set_session_state.state, set_session_state.binary_state) > 1 then
        perform pgqueue._refuse_argument('the state', 'either a state or a binary_state', 'both');
    end if;
    if size > 262144 then
        perform pgqueue._refuse(
            'PQ005', format('the state has %s bytes, and a session may have at most 262144', size),
            'Keep it in a table of your own, and its key in the state.');
    end if;
    update pgqueue.session
       set state = set_session_state.state, binary_state = set_session_state.binary_state,
           state_set_at = case when size is not null then pgqueue.clock() end
     where queue_id = source.id and session_id = set_session_state.session_id and lock_token = set_session_state.lock_token;
    if not found then
        perform pgqueue._refuse_lost_session(source, set_session_state.session_id);
    end if;
end
$$;
