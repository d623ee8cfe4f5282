-- Moves messages, whose rows are locked, to another queue, as if they were sent there: its status, its limits and its
-- detection of duplicates apply, and its time to live if that is shorter. Deliveries are counted from zero. They arrive as
--
--   SENT    messages that this transaction has stored: they keep their places
--   WAITED  messages that were there before: they go before the fresh messages, in the order they were sent
--   DIED    dead letters: the same, but no time to live and no duplicate of before counts
--   DEAD    dead letters that go on from where they have arrived: the same, but the time to live from there counts
--
-- Returns  where the messages are now; a duplicate is not among them.
-- Raises   PQ004 queue disabled, PQ005 message too large, PQ007 invalid argument, when the target requires sessions or is fair, and a
--          message has none; PQ008 queue full.
create or replace function pgqueue._move_to_queue(source pgqueue.queue, target pgqueue.queue, places tid[], arrive_as text)
returns tid[]
language plpgsql
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_variable
declare
    moment   timestamptz := pgqueue.clock();
    arriving record;
    sessions text[];
begin
    if target.status in ('DISABLED', 'SEND_DISABLED') then
        perform pgqueue._refuse_disabled(target);
    end if;
    if target.max_message_size is not null then
        perform pgqueue._refuse_size(target, format('message %s, forwarded from queue %I,', sequence_number, source.name), size)
           from (select sequence_number, octet_length(coalesce(binary_body, convert_to(body::text, 'UTF8')))
                                         + coalesce(octet_length(application_properties::text), 0) as size
                   from pgqueue.message
                  where ctid = any (places)) as measured
          where size > target.max_message_size;
    end if;
    if target.requires_session or target.fair then
        perform pgqueue._refuse_argument(
                    'session_id', format('given, because queue %I forwards to queue %I, which requires sessions or is fair', source.name, target.name), null)
           from pgqueue.message
          where ctid = any (places) and coalesce(session_id, '') = '';
    end if;
    perform pgqueue._use(target, sends => true);
    if target.requires_duplicate_detection and arrive_as not in ('DIED', 'DEAD') then
        places := pgqueue._drop_duplicates(target, places);
    end if;
    if target.max_queue_length is not null and target.forward_to is null then
        perform pgqueue._check_queue_length(target, cardinality(places), pgqueue._last_number_drawn());
    end if;
    select array_agg(message.sequence_number) filter (where arrive_as <> 'SENT' or lane & 1::smallint = 0::smallint) as returned,
           array_agg(message.sequence_number) as numbers,
           array_agg(distinct pgqueue._priority(lane)) as priorities
      into arriving
      from pgqueue.message
     where ctid = any (places);
    perform pgqueue._create_lanes(target.id, priority)
       from unnest(arriving.priorities) as priority
      where not (2 * priority + 1)::smallint = any (target.fresh_lanes);
    perform pg_current_xact_id();        -- take a transaction id before drawing a number, as in pgqueue.send
    with ordered as materialized (
        select ctid as place from pgqueue.message where ctid = any (places) order by sequence_number
    ), placed as materialized (
        select place, case when arrive_as <> 'SENT' then nextval('pgqueue.sequence_number') end as position from ordered
    ), moved as (
        update pgqueue.message
           set queue_id        = target.id,
               lane            = case when target.requires_session or target.fair then 2000
                                      when placed.position is null then lane
                                      else 2 * pgqueue._priority(lane) end,
               position        = coalesce(placed.position, message.position),
               hops            = coalesce(hops, 0) + 1,
               delivery_count  = 0,
               locked_until    = null,
               lock_token      = null,
               locked_by       = null,
               first_locked_at = null,
               time_to_live    = least(case when arrive_as <> 'DIED' then time_to_live end, target.default_message_time_to_live),
               expires_at      = least(case when arrive_as <> 'DIED' then expires_at end, moment + target.default_message_time_to_live)
          from placed
         where ctid = placed.place
        returning ctid as place, session_id)
    select array_agg(place), array_agg(session_id) into places, sessions from moved;
    if target.requires_session or target.fair then
        perform pgqueue._announce_sessions(target.id, sessions);
    end if;
    perform pgqueue._keep_membership(source.id, target.id, arriving.numbers);
    if arriving.returned is not null then
        update pgqueue.failed_message
           set queue_id = target.id
         where queue_id = source.id and sequence_number = any (arriving.returned);
    end if;
    if target.awaited_until > moment then
        perform pgqueue._notify(target);
    end if;
    return coalesce(places, '{}');
end
$$;
