-- Stores messages of any kind in one queue, all or none; pgqueue.send and pgqueue.send_batch have fast paths for plain
-- messages. A number is drawn for every message, so that a duplicate leaves a gap.
-- Returns  what pgqueue.send_batch returns, as an array.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ005 message too large, PQ007 invalid argument, PQ008 queue full,
--          PQ012 duplicate message.
create or replace function pgqueue._send_any(
    target                  pgqueue.queue,
    -- generated rows: {body to scheduled_enqueue_time: $arrays | $type[]}, negate_duplicates | boolean,
    --     {from session_id: $arrays | $type[] | default null},
    bodies                  jsonb[],
    binary_bodies           bytea[],
    message_ids             text[],
    correlation_ids         text[],
    subjects                text[],
    content_types           text[],
    reply_tos               text[],
    application_properties  jsonb[],
    priorities              integer[],
    times_to_live           interval[],
    scheduled_enqueue_times timestamptz[],
    negate_duplicates       boolean,
    session_ids             text[]        default null,
    reply_to_session_ids    text[]        default null,
    tos                     text[]        default null,
    partition_keys          text[]        default null,
    unique_keys             text[]        default null,
    unique_scopes           text[]        default null,
    -- end
    labels                  text[] default null,
    on_conflict             text   default 'ignore'
)
returns bigint[]
language plpgsql
as $$
#variable_conflict use_column
declare
    moment  timestamptz := pgqueue.clock();
    count   integer     := greatest(
        -- generated: {all: cardinality($given)}
        cardinality(bodies), cardinality(binary_bodies), cardinality(message_ids), cardinality(correlation_ids),
        cardinality(subjects), cardinality(content_types), cardinality(reply_tos),
        cardinality(_send_any.application_properties), cardinality(priorities), cardinality(times_to_live),
        cardinality(scheduled_enqueue_times), cardinality(session_ids), cardinality(reply_to_session_ids),
        cardinality(tos), cardinality(partition_keys), cardinality(unique_keys), cardinality(unique_scopes)
        -- end
    );
    numbers bigint[];
    answers bigint[];                    -- for each message its own number, or that of the earlier message with its id or key
    replaces boolean[];                  -- for each message whether it takes the place of that one
begin
    perform pgqueue._check_batch(
        -- generated: target, count, {all: $given}, labels
        target, count, bodies, binary_bodies, message_ids, correlation_ids, subjects, content_types, reply_tos,
        _send_any.application_properties, priorities, times_to_live, scheduled_enqueue_times, session_ids,
        reply_to_session_ids, tos, partition_keys, unique_keys, unique_scopes, labels
        -- end
    );
    perform pgqueue._use(target, sends => true);
    numbers := array(select nextval('pgqueue.sequence_number') from generate_series(1, count));
    answers := numbers;
    if target.requires_duplicate_detection and message_ids is not null then
        answers := pgqueue._record_message_ids(target, message_ids, numbers);
    end if;
    if num_nonnulls(variadic unique_keys) > 0 then
        select held.answers, held.replaces into answers, replaces
          from pgqueue._hold_unique_keys(target, unique_keys, unique_scopes, message_ids, numbers, answers, on_conflict) as held;
    end if;
    if target.max_queue_length is not null then
        perform pgqueue._check_queue_length(
            target, (select count(*) from unnest(numbers, answers) as sent (number, answer) where answer = number),
            numbers[1] - 1);
    end if;
    with given as materialized (
        select answer, case when is_later then answer else number end, greatest(scheduled_enqueue_time, moment) as enqueued_time,
               target.id,
               case when target.requires_session or target.fair then 2000
                    else 2 * coalesce(priority, 0) + (answer = number or is_later)::integer end as lane,
               -- generated: {body to application_properties: $alias},
               body, binary_body, message_id, correlation_id, subject, content_type, reply_to, properties,
               -- end
               greatest(scheduled_enqueue_time, moment) + least(time_to_live, target.default_message_time_to_live),
               least(time_to_live, target.default_message_time_to_live),
               -- generated: {from session_id if is_kept}
               session_id, reply_to_session_id, "to", partition_key
               -- end
          from unnest(
                      -- generated: numbers, answers, replaces, {all: $given}
                      numbers, answers, replaces, bodies, binary_bodies, message_ids, correlation_ids, subjects,
                      content_types, reply_tos, _send_any.application_properties, priorities, times_to_live,
                      scheduled_enqueue_times, session_ids, reply_to_session_ids, tos, partition_keys, unique_keys,
                      unique_scopes
                      -- end
               ) as given (
                      -- generated: number, answer, replaces, {all: $alias}
                      number, answer, replaces, body, binary_body, message_id, correlation_id, subject, content_type,
                      reply_to, properties, priority, time_to_live, scheduled_enqueue_time, session_id,
                      reply_to_session_id, "to", partition_key, unique_key, unique_scope
                      -- end
               )
         cross join lateral (select coalesce(scheduled_enqueue_time > moment, false) as is_later) as due
         where answer = number or replaces
    ), scheduled as (
        insert into pgqueue.scheduled_message (
            -- generated: sequence_number, position, enqueued_time, queue_id, lane, {body to application_properties},
            --     expires_at, time_to_live, {from session_id if is_kept},
            sequence_number, position, enqueued_time, queue_id, lane, body, binary_body, message_id, correlation_id,
            subject, content_type, reply_to, application_properties, expires_at, time_to_live, session_id,
            reply_to_session_id, "to", partition_key,
            -- end
            scheduled_enqueue_time)
        select *, enqueued_time from given where enqueued_time > moment)
    insert into pgqueue.message (
        -- generated: sequence_number, position, enqueued_time, queue_id, lane, {body to application_properties},
        --     expires_at, time_to_live, {from session_id if is_kept}
        sequence_number, position, enqueued_time, queue_id, lane, body, binary_body, message_id, correlation_id,
        subject, content_type, reply_to, application_properties, expires_at, time_to_live, session_id,
        reply_to_session_id, "to", partition_key
        -- end
    )
    select * from given where enqueued_time <= moment;
    if target.requires_session or target.fair then
        perform pgqueue._announce_sessions(target.id, array(
            select session_id
              from unnest(numbers, answers, replaces, session_ids, scheduled_enqueue_times)
                   as sent (number, answer, replaces, session_id, at)
             where (answer = number or replaces) and (at is null or at <= moment)));
    end if;
    if target.awaited_until > moment then
        perform pgqueue._notify(target);
    end if;
    if target.forward_to is not null then
        perform pgqueue._forward_sent(
            target, numbers[1] - 1, array(select answer from unnest(answers, replaces) as sent (answer, is_new) where is_new));
    end if;
    if answers = numbers then
        return numbers;
    end if;
    if not negate_duplicates then
        perform pgqueue._notice_duplicates(message_ids, numbers, answers, unique_keys, replaces);
        return answers;
    end if;
    return array(
        select case when answer = number or replaces then answer else -answer end
          from unnest(numbers, answers, replaces) with ordinality as sent (number, answer, replaces, nth)
         order by nth);
end
$$;
