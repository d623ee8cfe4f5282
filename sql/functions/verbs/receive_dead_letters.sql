-- Peek-lock of dead letters: locks up to `max_messages` for `lock_duration` (the queue's own when null) and returns
-- them with the reason of dead-lettering, in the order sent. Deliveries are counted; dead letters neither expire nor
-- are dead-lettered again. Complete, abandon and renew them under the name '<queue>/$deadletterqueue'.
--
-- For a second a session remembers how far it has come, and goes on from there: a receive does not read what the session has
-- received before. Where it does not find enough there, it begins at the front. So a message that is dead-lettered or becomes
-- free behind others may come up to a second after them.
-- Returns  one row per dead letter; no rows when none is waiting.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ007 invalid argument.
-- Locks    the rows returned; skips whatever others hold.
create or replace function pgqueue.receive_dead_letters(
    queue text, max_messages integer default 1, lock_duration interval default null, locked_by text default null)
returns setof pgqueue.received_message
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
    moment timestamptz   := pgqueue.clock();
    second bigint        := extract(epoch from moment);
    token  uuid          := gen_random_uuid();
    memory text          := 'pgqueue.dead_letters_' || source.id;
    known  bigint[]      := nullif(current_setting(memory, true), '');     -- when it began at the front; the last number
    fetched bigint       := pg_stat_get_xact_blocks_fetched('pgqueue.dead_letter'::regclass);
    places tid[];
begin
    perform pgqueue._check_receive(source, max_messages, receive_dead_letters.lock_duration);
    perform pgqueue._use(source);
    loop
        if known[1] is distinct from second then
            known := array[second, 0];
        end if;
        places := array(
            select held.place
              from pgqueue._dead_letters_from(source.id, known[2] + 1) as found
             cross join lateral (
                   select ctid as place
                     from pgqueue.dead_letter
                    where queue_id = source.id and sequence_number = found.sequence_number and position = found.position
                      and (locked_until is null or locked_until <= moment)
                    limit 1
                      for update skip locked) as held
             limit max_messages);
        exit when known[2] = 0 or cardinality(places) = max_messages;
        known[2] := 0;
    end loop;
    perform pgqueue._pass_read(source.id, fetched, cardinality(places));
    known[2] := (select max(sequence_number) from pgqueue.dead_letter where ctid = any (places));
    perform set_config(memory, known::text, false) where known[2] is not null;
    return query
        update pgqueue.dead_letter
           set locked_until   = moment + coalesce(receive_dead_letters.lock_duration, source.lock_duration),
               lock_token     = token,
               locked_by      = coalesce(receive_dead_letters.locked_by, pgqueue._backend_name()),
               delivery_count = delivery_count + 1
          from unnest(places) as held (place)
         where ctid = place
        returning (pgqueue._dead_letter_as_received(dead_letter, token)).*;
end
$$;
