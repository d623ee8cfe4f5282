-- Locks a session whose row this transaction has locked for its acceptor; see pgqueue._free_session.
create or replace function pgqueue._lock_session(free pgqueue.session, until timestamptz, holder text)
returns setof pgqueue.accepted_session
language sql
as $$
    update pgqueue.session as known
       set lock_token = gen_random_uuid(), locked_until = until, locked_by = holder,
           cursor = (free).cursor, horizon = (free).horizon
     where known.queue_id = (free).queue_id and known.session_id = (free).session_id
    returning known.session_id, known.lock_token, known.locked_until, known.state, known.binary_state;
$$;
