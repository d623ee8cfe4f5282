-- Receives up to `max_messages` from a queue whose groups take turns; see pgqueue.receive. Each waiting group gives its first free messages:
-- an equal part of those that are wanted, at least one. The group that has waited longest comes first. After that it waits behind the others,
-- if it may have more; otherwise see pgqueue._set_aside. While others hold all waiting groups, this receives the messages of those groups,
-- and leaves the groups where they are.
-- Returns  one row per message, by group, and within a group in its order.
-- Locks    the rows returned, and the groups; skips whatever others hold.
create or replace function pgqueue._receive_from_groups(
    source pgqueue.queue, max_messages integer, lock_duration interval, locked_by text, take_turn boolean)
returns setof pgqueue.received_message
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
    drawn   bigint  := case when pg_current_xact_id_if_assigned() is null then pgqueue._last_number_drawn() end;
    xid     xid8    := pg_current_xact_id();       -- above those of who drew the numbers, and before the clock is read; see pgqueue._pass_due_times
    token   uuid    := gen_random_uuid();
    wanted  integer := max_messages;
    round   integer := least(greatest(2, max_messages / 20), 5);       -- how many messages a group gives, if all have as many
    reach   integer := (max_messages - 1) / round + 1;                -- how many groups are looked at
    ahead   integer := 1000;
    is_held boolean;                               -- others hold all groups that wait
    was_held boolean := false;
    is_limited boolean := num_nonnulls(source.max_concurrent_per_group, source.max_receive_rate_per_group) > 0
                          or exists (select from pgqueue.group_limit where queue_id = source.id);      -- pgqueue._limits_groups
    passed  text[]  := '{}';                       -- groups that had nothing, but may get something at any moment
    moved   tid[]   := '{}';
    reads_much boolean := false;
    began   timestamptz;                           -- a message that this receive has locked was not free then, however long it takes
    moment  timestamptz;
    ring    record;
    rooms   pgqueue.group_room[];
    found   record;
    split   record;
    share   integer;
begin
    if take_turn then
        perform pgqueue._take_turn_when_due(source.id);
    end if;
    if num_nonnulls(source.paused_at, source.max_receive_rate, source.max_concurrent) > 0 then
        wanted := pgqueue._allowance(source, max_messages);
    end if;
    began := pgqueue.clock();
    while wanted > 0 loop
        moment := pgqueue.clock();
        ring   := pgqueue._waiting_groups(source.id, passed, reach, moment);
        is_held := ring.ids is null;
        if is_held then
            exit when was_held or moved <> '{}';
            select array_agg(session_id), array_agg(cursor) into ring.ids, ring.cursors
              from (select session_id, max(cursor) as cursor
                      from (select session_id, pgqueue._group_cursor(waiting_session) as cursor
                              from pgqueue.waiting_session
                             where queue_id = source.id and available_at between pgqueue._due_from(source.id, 'SESSION') and moment
                             order by available_at
                             limit reach) as waiting
                     where session_id <> all (passed)
                     group by session_id) as waiting;
            if ring.ids is null then
                exit when not take_turn or not pgqueue._take_turn(source);
                take_turn := false;
                began     := pgqueue.clock();
                continue;
            end if;
            was_held := true;
        end if;
        share := greatest(1, wanted / cardinality(ring.ids));
        if is_limited then
            if is_held then
                perform pgqueue._await_group(source.id, ring.ids[1]);
            end if;
            rooms  := pgqueue._rooms_in_groups(source, ring.ids, share, pgqueue.clock());
            moment := pgqueue.clock();                       -- a lock must not begin before its slot is free
        end if;
        found := pgqueue._free_in_groups(source.id, ring.ids, ring.cursors, share, rooms, wanted, began);
        reads_much := reads_much or found.reads_much;
        if found.earliest <= moment then
            perform pgqueue._expire(source, array(
                select ctid from pgqueue.message where ctid = any (found.places) and coalesce(expires_at <= moment, false)));
            perform pgqueue._expire_due(source, ahead);
            ahead := 2 * ahead;                              -- see pgqueue.receive
            continue;
        elsif found.deliveries >= source.max_delivery_count then
            perform pgqueue._move_exhausted(source, array(
                select ctid from pgqueue.message where ctid = any (found.places) and delivery_count >= source.max_delivery_count));
            continue;
        elsif found.places is null then
            reach := least(2 * reach, 1000);
        else
            if num_nonnulls(source.max_receive_rate, source.max_concurrent) > 0 then
                perform pgqueue._hand_out(source, found.places, token, moment);
            end if;
            if is_limited then
                perform pgqueue._record_in_groups(source, rooms, found.numbers, found.nths, token, moment);
            end if;
            return query
                update pgqueue.message
                   set locked_until    = moment + coalesce(_receive_from_groups.lock_duration, source.lock_duration),
                       lock_token      = token,
                       locked_by       = _receive_from_groups.locked_by,
                       delivery_count  = delivery_count + 1,
                       first_locked_at = case when source.retain_history is not null then coalesce(first_locked_at, moment) end
                  from unnest(found.places) as free (place)
                 where ctid = place
                returning (pgqueue._as_received(message, token)).*;
            wanted := wanted - cardinality(found.places);
        end if;
        if is_held then
            continue;
        elsif cardinality(found.places) = share * cardinality(ring.ids) then
            moved := moved || ring.places;
            continue;
        end if;
        select coalesce(array_agg(place) filter (where given > 0 and given = most), '{}') as giving,
               array_agg(place) filter (where given = 0 or given < most) as dry
          into split
          from (select place, least(share, (rooms[nth]).places) as most,
                       (select count(*) from unnest(found.nths) as giver where giver = nth) as given
                  from unnest(ring.places) with ordinality as waiting (place, nth)
                 where wanted > 0 or nth <= found.nths[cardinality(found.nths)]) as looked_at;
        moved := moved || split.giving;
        if split.dry is not null then
            ring   := pgqueue._set_aside(source, split.dry, rooms, drawn, may_stay => cardinality(passed) < 32);
            passed := passed || ring.ids;
            moved  := moved || ring.places;
        end if;
    end loop;
    perform pgqueue._move_groups(moved, array_fill(moment, array[cardinality(moved)]), drawn, reads_much);
end
$$;
