-- Receives up to `max_messages` of a session that the caller holds, in their order. The lock of each is that of the session:
-- it is settled as any other message, with this token. A message that was abandoned, or whose delivery ended when the session
-- was lost, comes again before its successors; one that was abandoned with a delay holds them up until then. A message that
-- was delivered `max_delivery_count` times is dead-lettered instead; an expired one is deleted or dead-lettered, as the
-- queue's settings require. Commit at once.
-- Returns  one row per message, in the order of the session; no rows when no message is waiting, while the
--          queue is paused, or when its limits allow no more now.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ007 invalid argument, PQ020 session lock lost.
-- Locks    the rows returned, and the session against being accepted; stops before a message that others hold.
create or replace function pgqueue.receive_from_session(
    queue text, session_id text, lock_token uuid, max_messages integer default 1)
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
    perform pgqueue._check_receive(source, max_messages, null);
    places := pgqueue._take_from_sessions(
        source, array[receive_from_session.session_id], array[receive_from_session.lock_token], array[max_messages]);
    return query
        with handed as (
            update pgqueue.message
               set locked_until    = held.locked_until,
                   lock_token      = held.lock_token,
                   locked_by       = held.locked_by,
                   delivery_count  = delivery_count + 1,
                   first_locked_at = case when source.retain_history is not null then coalesce(first_locked_at, pgqueue.clock()) end
              from pgqueue.session as held
             where message.ctid = any (places) and held.queue_id = source.id and held.session_id = receive_from_session.session_id
               and held.lock_token is not null                -- a release of this moment leaves nothing to hand out
            returning message)
        select (pgqueue._as_received(message, receive_from_session.lock_token)).* from handed order by (message).position;
end
$$;
