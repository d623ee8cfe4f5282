-- Peek-lock: locks up to `max_messages` for `lock_duration` (the queue's own when null) and returns them. The most
-- urgent priority comes first; within it, redelivered messages come before fresh ones, else the order is that of
-- sending. A message that was delivered `max_delivery_count` times already is dead-lettered instead; an expired one is
-- deleted or dead-lettered, as the queue's settings require. Commit at once: the lock, not the transaction, keeps the
-- messages from others. Where the transaction may stay open, pass `take_turn => false`; see pgqueue.take_turn. From
-- '<queue>/$deadletterqueue' dead letters are received, the oldest first.
--
-- A queue that is paused returns nothing, and one with limits returns fewer messages where they demand it. The plan is
-- pinned: a sort would lock all the rows it sorts; see docs/engine.md.
-- Returns  one row per message; no rows when no message is waiting.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ007 invalid argument.
-- Locks    the rows returned; skips whatever others hold. In a queue with limits, see pgqueue._allowance.
create or replace function pgqueue.receive(
    queue         text,
    max_messages  integer  default 1,
    lock_duration interval default null,
    locked_by     text     default null,
    take_turn     boolean  default true
)
returns setof pgqueue.received_message
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    source    pgqueue.queue;
    scan      bigint[];
    passed    bigint[];
    came_back boolean;
    moment    timestamptz := pgqueue.clock();
    token     uuid        := gen_random_uuid();
    holder    text        := coalesce(receive.locked_by, pgqueue._backend_name());
    places    tid[];
    deliveries integer;
    earliest  timestamptz;
    ahead     integer;
    last_lane integer;
    reached   bigint;
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    select * into source from pgqueue.queue where name = receive.queue;
    if source.status is distinct from 'ACTIVE' or source.requires_session or source.forward_to is not null or source.fair
       or max_messages is null or max_messages < 1 or receive.lock_duration is not null
       or not pgqueue._may_receive(source.receivers) then                 -- in one condition: a plain receive pays for each
        if source.id is null then
            return query
                select *
                  from pgqueue.receive_dead_letters(
                       pgqueue._dead_letters_of(queue), max_messages, receive.lock_duration, receive.locked_by);
            return;
        elsif not pgqueue._may_receive(source.receivers) then
            perform pgqueue._refuse_access('RECEIVE', queue);
        end if;
        perform pgqueue._check_receive(source, max_messages, receive.lock_duration);
        if source.requires_session then
            perform pgqueue._refuse_without_session(source);
        elsif source.forward_to is not null then
            perform pgqueue._refuse_receive(source);
        elsif source.fair then
            return query
                select * from pgqueue._receive_from_groups(source, max_messages, receive.lock_duration, holder, take_turn);
            return;
        end if;
    end if;
    scan := nullif(current_setting(concat('pgqueue.scan_', source.id), true), '');
    if cardinality(scan) is distinct from cardinality(source.lanes) + 1 or abs(extract(epoch from moment) - scan[1]) > 1 then
        if take_turn then
            perform pgqueue._take_turn(source);
            moment := pgqueue.clock();       -- a turn may have waited: a lock's time must not begin before the lock
        end if;
        scan := pgqueue._load_scan(source, scan);
    end if;
    if source.paused_at is not null or source.max_receive_rate is not null or source.max_concurrent is not null then
        max_messages := pgqueue._allowance(source, max_messages);
        if max_messages = 0 then
            return;
        end if;
        moment := pgqueue.clock();
    end if;
    loop
        select array_agg(place), max(delivery_count), min(expires_at), max(nth), (array_agg(position))[count(*)]
          into places, deliveries, earliest, last_lane, reached
          from (select free.place, free.delivery_count, free.expires_at, free.position, known.nth
                  from unnest(source.lanes, scan[2:]) with ordinality as known (lane, cursor, nth)
                 cross join lateral (
                       select ctid as place, delivery_count, expires_at, position
                         from pgqueue.message
                        where queue_id = source.id and lane = known.lane and position > known.cursor
                          and (locked_until is null or locked_until <= moment)
                        order by position
                        limit max_messages
                          for update skip locked) as free
                 limit max_messages) as free;
        if deliveries < source.max_delivery_count and (earliest > moment) is not false then
            if source.max_receive_rate is not null or source.max_concurrent is not null then
                perform pgqueue._hand_out(source, places, token, moment);
            end if;
            return query
                update pgqueue.message
                   set locked_until    = moment + coalesce(receive.lock_duration, source.lock_duration),
                       lock_token      = token,
                       locked_by       = holder,
                       delivery_count  = delivery_count + 1,
                       first_locked_at = case when source.retain_history is not null then coalesce(first_locked_at, moment) end
                  from unnest(places) as free (place)
                 where ctid = place
                returning (pgqueue._as_received(message, token, is_scanned => true)).*;
            if reached > scan[last_lane + 1] + 128 then
                perform pgqueue._move_scan(source.id, scan, last_lane, reached);
            end if;
            if receive.lock_duration < interval '5 seconds' then
                perform pgqueue._notify_early(source, receive.lock_duration);
            end if;
            exit;
        elsif places is null then
            exit when not take_turn;
            passed := scan[2:];
            came_back := pgqueue._take_turn(source);
            moment := pgqueue.clock();
            scan := pgqueue._load_scan(source, scan);
            exit when not came_back and scan[2:] = passed;
        elsif earliest <= moment then
            ahead := coalesce(2 * ahead, 1000);      -- otherwise each scan would walk over what the previous one removed
            perform pgqueue._expire(source, array(select ctid from pgqueue.message where ctid = any (places) and coalesce(expires_at <= moment, false)));
            perform pgqueue._expire_due(source, ahead);
            moment := pgqueue.clock();
        else
            perform pgqueue._move_exhausted(
                source, array(select ctid from pgqueue.message where ctid = any (places) and delivery_count >= source.max_delivery_count));
            moment := pgqueue.clock();
        end if;
    end loop;
end
$$;
