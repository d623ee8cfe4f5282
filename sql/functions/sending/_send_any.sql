-- Stores messages of any kind in one queue, all or none; pgqueue.send and pgqueue.send_batch have fast paths for plain
-- messages. A number is drawn for every message, so that a duplicate leaves a gap.
-- Returns  what pgqueue.send_batch returns, as an array.
-- Raises   PQ004 queue disabled, PQ005 message too large, PQ007 invalid argument, PQ008 queue full.
create or replace function pgqueue._send_any(
    target                  pgqueue.queue,
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
    negate_duplicates       boolean
)
returns bigint[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    moment  timestamptz := pgqueue.clock();
    count   integer     := greatest(
        cardinality(bodies), cardinality(binary_bodies), cardinality(message_ids), cardinality(correlation_ids),
        cardinality(subjects), cardinality(content_types), cardinality(reply_tos),
        cardinality(_send_any.application_properties), cardinality(priorities), cardinality(times_to_live),
        cardinality(scheduled_enqueue_times));
    numbers bigint[];
    answers bigint[];                    -- for each message its own number, or that of the earlier message with its id
begin
    perform pgqueue._check_batch(
        target, count, bodies, binary_bodies, message_ids, correlation_ids, subjects, content_types, reply_tos,
        _send_any.application_properties, priorities, times_to_live, scheduled_enqueue_times);
    numbers := array(select nextval('pgqueue.sequence_number') from generate_series(1, count));
    answers := numbers;
    if target.requires_duplicate_detection and message_ids is not null then
        answers := pgqueue._record_message_ids(target, message_ids, numbers);
    end if;
    if target.max_queue_length is not null then
        perform pgqueue._check_queue_length(
            target, (select count(*) from unnest(numbers, answers) as sent (number, answer) where answer = number),
            numbers[1] - 1);
    end if;
    with given as materialized (
        select number, number, greatest(scheduled_enqueue_time, moment) as enqueued_time, target.id,
               2 * coalesce(priority, 0) + 1 as lane, body, binary_body,
               message_id, correlation_id, subject, content_type, reply_to, properties,
               greatest(scheduled_enqueue_time, moment) + least(time_to_live, target.default_message_time_to_live),
               least(time_to_live, target.default_message_time_to_live)
          from unnest(numbers, answers, bodies, binary_bodies, message_ids, correlation_ids, subjects, content_types,
                      reply_tos, _send_any.application_properties, priorities, times_to_live, scheduled_enqueue_times)
               as given (number, answer, body, binary_body, message_id, correlation_id, subject, content_type,
                         reply_to, properties, priority, time_to_live, scheduled_enqueue_time)
         where answer = number
    ), scheduled as (
        insert into pgqueue.scheduled_message (
            sequence_number, position, enqueued_time, queue_id, lane, body, binary_body, message_id, correlation_id,
            subject, content_type, reply_to, application_properties, expires_at, time_to_live, scheduled_enqueue_time)
        select *, enqueued_time from given where enqueued_time > moment)
    insert into pgqueue.message (
        sequence_number, position, enqueued_time, queue_id, lane, body, binary_body, message_id, correlation_id,
        subject, content_type, reply_to, application_properties, expires_at, time_to_live)
    select * from given where enqueued_time <= moment;
    if target.awaited_until > moment then
        perform pgqueue._notify(target);
    end if;
    if answers = numbers then
        return numbers;
    end if;
    if not negate_duplicates then
        perform pgqueue._notice_duplicates(message_ids, numbers, answers);
        return answers;
    end if;
    return array(
        select case when answer = number then number else -answer end
          from unnest(numbers, answers) with ordinality as sent (number, answer, nth)
         order by nth);
end
$$;
