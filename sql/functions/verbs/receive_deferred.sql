-- Locks deferred messages by their sequence numbers and returns them. They are settled like any other message; when one
-- is abandoned or its lock expires, it is deferred again. A message that was delivered `max_delivery_count` times is
-- dead-lettered instead; an expired one is deleted or dead-lettered, as the queue's settings say. Neither is returned,
-- nor is a message that somebody else has locked.
-- Returns  one row per message, by sequence number.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ006 message not found, PQ007 invalid argument; no message is
--          locked then.
-- Locks    the rows returned; skips whatever others hold.
create or replace function pgqueue.receive_deferred(
    queue text, sequence_numbers bigint[], lock_duration interval default null, locked_by text default null)
returns setof pgqueue.message
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    source  pgqueue.queue := pgqueue._find_queue(queue);
    moment  timestamptz   := pgqueue.clock();
    token   uuid          := gen_random_uuid();
    unknown bigint;
    places  tid[];
begin
    perform pgqueue._check_receive(source, 1, receive_deferred.lock_duration);
    select number into unknown
      from unnest(sequence_numbers) as number
     where number is null or not exists (
           select
             from pgqueue.message
            where queue_id = source.id and lane % 2 = 0 and sequence_number = number and lane >= 800)
     limit 1;
    if found then
        perform pgqueue._refuse_unknown_message(source, 'deferred', unknown);
    end if;
    places := array(
        select ctid
          from pgqueue.message
         where queue_id = source.id and lane % 2 = 0 and sequence_number = any (sequence_numbers) and lane >= 800
           and (locked_until is null or locked_until <= moment)
         order by sequence_number
           for update skip locked);
    perform pgqueue._expire(source, array(
        select ctid from pgqueue.message where ctid = any (places) and expires_at <= moment));
    perform pgqueue._move_to_dead_letters(
        source, array(select ctid from pgqueue.message where ctid = any (places) and delivery_count >= source.max_delivery_count),
        'MaxDeliveryCountExceeded', format('the queue allows %s deliveries', source.max_delivery_count));
    return query
        update pgqueue.message
           set locked_until    = moment + coalesce(receive_deferred.lock_duration, source.lock_duration),
               lock_token      = token,
               locked_by       = coalesce(receive_deferred.locked_by, pgqueue._backend_name()),
               delivery_count  = delivery_count + 1,
               first_locked_at = case when source.retain_history is not null then coalesce(first_locked_at, moment) end
          from unnest(places) as held (place)
         where ctid = place
        returning message.*;
end
$$;
