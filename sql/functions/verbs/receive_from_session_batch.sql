-- Receives of many sessions that the caller holds, up to so many messages of each; see pgqueue.receive_from_session. Commit at
-- once.
-- Returns  one row per message, session by session, in the order of each; no rows when no message is waiting in any.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ007 invalid argument, PQ020 session lock lost; no message is locked
--          then.
-- Locks    the rows returned, and the sessions against being accepted; stops in each before a message that others hold.
create or replace function pgqueue.receive_from_session_batch(
    queue text, session_ids text[], lock_tokens uuid[], max_messages_each integer[])
returns setof pgqueue.received_message
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    source pgqueue.queue := pgqueue._find_session_queue(queue);
    places tid[];
begin
    perform pgqueue._check_receive(source, 1, null);
    perform pgqueue._check_session_locks(session_ids, lock_tokens);
    if cardinality(max_messages_each) is distinct from cardinality(session_ids)
       or (select min(coalesce(most, 0)) from unnest(max_messages_each) as most) < 1 then
        perform pgqueue._refuse_argument(
            'max_messages_each', 'a positive whole number for each session', max_messages_each::text);
    end if;
    places := pgqueue._take_from_sessions(source, session_ids, lock_tokens, max_messages_each);
    return query
        with handed as (
            update pgqueue.message
               set locked_until    = held.locked_until,
                   lock_token      = held.lock_token,
                   locked_by       = held.locked_by,
                   delivery_count  = delivery_count + 1,
                   first_locked_at = case when source.retain_history is not null then coalesce(first_locked_at, pgqueue.clock()) end
              from unnest(session_ids) with ordinality as given (id, nth)
             cross join lateral (
                   select * from pgqueue.session where queue_id = source.id and session_id = given.id limit 1) as held
             where message.ctid = any (places) and held.session_id = message.session_id
               and held.lock_token is not null                -- a release of this moment leaves nothing to hand out
            returning message, nth)
        select (pgqueue._as_received(message, (message).lock_token)).* from handed order by nth, (message).position;
end
$$;
