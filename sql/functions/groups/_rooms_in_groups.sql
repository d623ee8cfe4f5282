-- Returns, in the order of these groups, how many messages each may hand out now, at most `share`. A group that another receive holds may hand
-- out none. Slots are counted as in pgqueue._slots_taken, tokens as in pgqueue._allowance; if fewer than `share` slots are recorded as free,
-- the recorded locks are checked.
-- Locks    the groups against other receives, until the transaction ends; skips those that others hold.
create or replace function pgqueue._rooms_in_groups(source pgqueue.queue, ids text[], share integer, moment timestamptz)
returns pgqueue.group_room[]
language plpgsql
as $$
#variable_conflict use_column
declare
    rooms  pgqueue.group_room[] := '{}';
    room   pgqueue.group_room;
    id     text;
    held   record;
    tokens double precision;
begin
    foreach id in array ids loop
        room          := null;
        room.group_id := id;
        room.places   := 0;
        if (pgqueue._free_session(source.id, id)).queue_id is not null then
            select max_concurrent, max_receive_rate into room.max_concurrent, room.rate
              from pgqueue.group_limit
             where queue_id = source.id and group_id = id;
            room.max_concurrent := nullif(coalesce(room.max_concurrent, source.max_concurrent_per_group), 0);
            room.rate           := nullif(coalesce(room.rate, source.max_receive_rate_per_group), 0);
            room.places         := share;
            select turn, full_at, numbers, message_group.tokens into room.turn, room.full_at, room.numbers, room.tokens
              from pgqueue.message_group
             where queue_id = source.id and group_id = id
             order by turn desc
             limit 1;
            room.numbers := coalesce(room.numbers, '{}');
            room.tokens  := coalesce(room.tokens, '{}');
            if room.rate is not null then
                tokens      := pgqueue._tokens(room.rate, room.full_at, moment) + room.rate / 1000000;      -- see pgqueue._allowance
                room.places := least(room.places, greatest(floor(tokens), 0));
                if tokens < 1 then
                    room.next := moment + interval '1 second' * (1 - tokens) / room.rate;
                end if;
            end if;
            if room.max_concurrent - cardinality(room.numbers) < room.places then
                held         := pgqueue._held_locks(source, room.numbers, room.tokens);
                room.numbers := held.numbers;
                room.tokens  := held.tokens;
                room.places  := greatest(least(room.places, room.max_concurrent - cardinality(room.numbers)), 0);
                if room.places = 0 then
                    room.next := greatest(room.next, held.until);
                end if;
            end if;
        end if;
        rooms := rooms || room;
    end loop;
    return rooms;
end
$$;
