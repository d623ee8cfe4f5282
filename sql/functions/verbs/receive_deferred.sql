-- Locks deferred messages by their sequence numbers and returns them. They are settled like any other message; when one
-- is abandoned or its lock expires, it is deferred again. A message that was delivered `max_delivery_count` times is
-- dead-lettered instead; an expired one is deleted or dead-lettered, as the queue's settings require. Neither is returned,
-- nor is a message that another receiver has locked, or that the queue may not hand out now: while it is paused, or because
-- of its limits. In a queue that requires sessions, the messages are those of one session, which the caller holds with its
-- own `lock_token`; their locks are that of the session.
-- Returns  one row per message, by sequence number.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ006 message not found, PQ007 invalid argument, PQ020 session lock
--          lost; no message is locked then.
-- Locks    the rows returned; skips whatever others hold.
create or replace function pgqueue.receive_deferred(
    queue text, sequence_numbers bigint[], lock_duration interval default null, locked_by text default null,
    session_id text default null, lock_token uuid default null)
returns setof pgqueue.received_message
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    source  pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
    moment  timestamptz   := pgqueue.clock();
    token   uuid          := gen_random_uuid();
    until   timestamptz;
    allowed integer;
    unknown bigint;
    places  tid[];
begin
    perform pgqueue._check_receive(source, 1, receive_deferred.lock_duration);
    perform pgqueue._use(source);
    if source.requires_session then
        if num_nulls(receive_deferred.session_id, receive_deferred.lock_token) > 0 then
            perform pgqueue._refuse_without_session(source);
        end if;
        select held.lock_token, held.locked_until into token, until
          from pgqueue._held_session(source, receive_deferred.session_id, receive_deferred.lock_token) as held;
    end if;
    select number into unknown
      from unnest(sequence_numbers) as number
     where number is null or (
           select true
             from pgqueue.message
            where queue_id = source.id and lane % 2 = 0 and sequence_number between number and number
              and lane::integer between 800 and 1200          -- cast: the whole lane is no way to a number
              and (session_id = receive_deferred.session_id or not source.requires_session)
            order by sequence_number                          -- by the index in that order, whatever the statistics
            limit 1) is null
     limit 1;
    if found then
        perform pgqueue._refuse_unknown_message(source, 'deferred', unknown);
    end if;
    if source.paused_at is not null or source.max_receive_rate is not null or source.max_concurrent is not null then
        allowed := pgqueue._allowance(source, cardinality(sequence_numbers));
        moment  := pgqueue.clock();
    end if;
    places := array(
        select place
          from (select distinct number from unnest(sequence_numbers) as number order by number) as given
         cross join lateral (
               select ctid as place
                 from pgqueue.message
                where queue_id = source.id and lane % 2 = 0 and sequence_number between number and number
                  and lane::integer between 800 and 1200
                  and (locked_until is null or locked_until <= moment or source.requires_session)
                  and (not source.requires_session or lock_token is distinct from token)
                order by sequence_number
                  for update skip locked) as deferred
         limit allowed);
    perform pgqueue._expire(source, array(
        select ctid from pgqueue.message where ctid = any (places) and coalesce(expires_at <= moment, false)));
    perform pgqueue._move_exhausted(
        source, array(select ctid from pgqueue.message where ctid = any (places) and delivery_count >= source.max_delivery_count));
    moment := pgqueue.clock();           -- these may have waited: a lock's time must not begin before the lock
    until  := coalesce(until, moment + coalesce(receive_deferred.lock_duration, source.lock_duration));
    if allowed > 0 then
        places := array(select ctid from pgqueue.message where ctid = any (places));
        perform pgqueue._hand_out(source, places, token, moment);
    end if;
    return query
        update pgqueue.message
           set locked_until    = until,
               lock_token      = token,
               locked_by       = coalesce(receive_deferred.locked_by, pgqueue._backend_name()),
               delivery_count  = delivery_count + 1,
               first_locked_at = case when source.retain_history is not null then coalesce(first_locked_at, moment) end
          from unnest(places) as held (place)
         where ctid = place
        returning (pgqueue._as_received(message, token)).*;
end
$$;
