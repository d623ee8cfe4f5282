-- Finds messages by state, by the values of properties, and by age, if they were sent longer ago than `older_than`: by sequence number,
-- beginning after `after`. The state is READY, SCHEDULED, DEFERRED, EXPIRED, EXHAUSTED, LOCKED or DEAD_LETTERED; null is all but dead letters.
-- At most `max_read` messages are read. If that ends the search, the last row has no state, and the last number that was read. Nothing is
-- locked or changed. Bodies are shown up to 200 characters.
-- Returns  at most `max_messages` rows, and that one.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
create or replace function pgqueue.find_messages(
    queue                  text,
    state                  text     default null,
    after                  bigint   default 0,
    max_messages           integer  default 50,
    message_id             text     default null,
    correlation_id         text     default null,
    subject                text     default null,
    reason                 text     default null,
    max_read               integer  default 5000,
    older_than             interval default null,
    application_properties jsonb    default null,
    session_id             text     default null
)
returns setof pgqueue.found_message
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    moment timestamptz   := pgqueue.clock();
    source pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
    wanted text          := coalesce(find_messages.state, 'ANY');
    first  bigint        := case when find_messages.after < 9223372036854775807 then find_messages.after + 1 else find_messages.after end;
    until  timestamptz;
begin
    perform pgqueue._check_bound(coalesce(max_messages, 0));
    perform pgqueue._check_bound(coalesce(max_read, 0));
    perform pgqueue._check_duration('older_than', older_than, even_zero => true);
    until := moment - older_than;
    perform pgqueue._check_properties(find_messages.application_properties, 'application_properties');
    if wanted not in ('ANY', 'READY', 'SCHEDULED', 'DEFERRED', 'EXPIRED', 'EXHAUSTED', 'LOCKED', 'DEAD_LETTERED') then
        perform pgqueue._refuse_argument(
            'state', 'READY, SCHEDULED, DEFERRED, EXPIRED, EXHAUSTED, LOCKED or DEAD_LETTERED', wanted);
    end if;
    return query
        with known as (                                      -- where it is, and what is needed to choose and to show it
            (select 1 as kept, fresh.*
               from pgqueue._progress(source.id, source.lanes) as progress
              cross join lateral (
                    select null::tid as place, position, sequence_number as number, lane, lock_token, delivery_count, enqueued_time,
                           null::timestamptz as due, locked_until, locked_by, expires_at, message_id, correlation_id, subject,
                           session_id, application_properties as properties, null::text as reason, null::timestamptz as died_at
                      from pgqueue._lane_messages(progress, first)
                     limit max_read) as fresh
              where progress.lane % 2 <> 0 and wanted not in ('SCHEDULED', 'DEFERRED', 'DEAD_LETTERED'))
             union all
            (select 1, null, position, sequence_number, lane, lock_token, delivery_count, enqueued_time, null, locked_until, locked_by,
                    expires_at, message_id, correlation_id, subject, session_id, application_properties, null, null
               from pgqueue._returned_by_number(source, first, max_read)
              where wanted not in ('SCHEDULED', 'DEAD_LETTERED'))
             union all
            (select 2, place, null, sequence_number, lane, null, delivery_count, enqueued_time, scheduled_enqueue_time, null, null,
                    expires_at, message_id, correlation_id, subject, session_id, application_properties, null, null
               from pgqueue._scheduled_by_number(source.id, first, max_read) as known
              cross join lateral (select (known.scheduled).*) as scheduled
              where wanted in ('ANY', 'SCHEDULED'))
             union all
            (select 3, null, position, sequence_number, lane, null, delivery_count, enqueued_time, null, locked_until, locked_by,
                    null, message_id, correlation_id, subject, session_id, application_properties, dead_letter_reason, dead_lettered_at
               from pgqueue._dead_letters_from(source.id, first)
              where wanted = 'DEAD_LETTERED'
              limit max_read)
             order by number
             limit max_read
        ), matching as materialized (
            select *
              from (select known.*,
                           case when kept = 2 then 'SCHEDULED'
                                when kept = 3 then 'DEAD_LETTERED'
                                else pgqueue._state_of(
                                    source,
                                    source.requires_session and exists (
                                        select
                                          from pgqueue.session as held
                                         where held.queue_id = source.id and held.session_id = known.session_id
                                           and held.lock_token = known.lock_token and held.locked_until > moment),
                                    lock_token, locked_until, expires_at, delivery_count, lane, moment) end as state
                      from known) as known
             where wanted in ('ANY', state)
               and (find_messages.message_id is null or message_id = find_messages.message_id)
               and (find_messages.correlation_id is null or correlation_id = find_messages.correlation_id)
               and (find_messages.subject is null or subject = find_messages.subject)
               and (find_messages.reason is null or reason = find_messages.reason)
               and (find_messages.session_id is null or session_id = find_messages.session_id)
               and (until is null or enqueued_time <= until)
               and (find_messages.application_properties is null
                    or pgqueue._has_properties(properties, find_messages.application_properties))
             order by number
             limit max_messages
        )
        (select number, state, delivery_count, enqueued_time, due, locked_until, locked_by, expires_at, message_id, correlation_id,
                subject, session_id, reason, died_at,
                (select pgqueue._error_line(last_error)
                   from pgqueue.failed_message as failed
                  where failed.queue_id = source.id and failed.sequence_number = number),
                (select left(coalesce(body::text, encode(substr(binary_body, 1, 100), 'hex')), 200)
                   from (select body, binary_body
                           from pgqueue.message
                          where kept = 1 and queue_id = source.id and lane = matching.lane and position = matching.position
                          union all
                         select body, binary_body from pgqueue.scheduled_message where kept = 2 and ctid = place
                          union all
                         select body, binary_body
                           from pgqueue.dead_letter
                          where kept = 3 and queue_id = source.id and sequence_number = number and position = matching.position) as whole)
           from matching
          order by number)
         union all
        select max(number), null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
          from known
        having count(*) = max_read and (select count(*) from matching) < max_messages;
end
$$;
