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
#variable_conflict use_column
declare
    source     pgqueue.queue := pgqueue._find_session_queue(queue);
    moment     timestamptz;
    held       pgqueue.session;
    has_turned boolean := false;
    places     tid[];
    unfit      tid[];
    allowed    integer := max_messages;
    fetched    bigint;
begin
    perform pgqueue._check_receive(source, max_messages, null);
    perform pgqueue._take_turn_when_due(source.id);
    held := pgqueue._held_session(source, receive_from_session.session_id, receive_from_session.lock_token);
    perform pgqueue._move_session_cursor(held);
    if num_nonnulls(source.paused_at, source.max_receive_rate, source.max_concurrent) > 0 then
        allowed := pgqueue._allowance(source, max_messages);
        if allowed = 0 then
            return;
        end if;
    end if;
    loop
        moment := pgqueue.clock();
        fetched := pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass);
        places := pgqueue._next_in_session(held, allowed);
        if pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass) > fetched + allowed + 32 then
            perform pgqueue._move_session_cursor(held, reads_much => true);
        end if;
        if places = '{}' then
            exit when has_turned or not pgqueue._take_turn(source);
            has_turned := true;
            continue;
        end if;
        unfit := array(select ctid from pgqueue.message where ctid = any (places) and coalesce(expires_at <= moment, false));
        if unfit <> '{}' then
            perform pgqueue._expire(source, unfit);
            continue;
        end if;
        unfit := pgqueue._exhausted(source, places);
        if unfit <> '{}' then
            perform pgqueue._move_exhausted(source, unfit);
            continue;
        end if;
        if num_nonnulls(source.max_receive_rate, source.max_concurrent) > 0 then
            perform pgqueue._hand_out(source, places, held.lock_token, moment);
        end if;
        return query
            with handed as (
                update pgqueue.message
                   set locked_until    = held.locked_until,
                       lock_token      = held.lock_token,
                       locked_by       = held.locked_by,
                       delivery_count  = delivery_count + 1,
                       first_locked_at = case when source.retain_history is not null then coalesce(first_locked_at, moment) end
                 where ctid = any (places)
                returning message)
            select (pgqueue._as_received(message, held.lock_token)).* from handed order by (message).position;
        exit;
    end loop;
end
$$;
