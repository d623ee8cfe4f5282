-- Sends many messages to a topic, as pgqueue.publish_batch_to_topic, and returns the numbers of those that are scheduled, by which
-- pgqueue.cancel_on_topic cancels them.
-- Returns  a row for each message, in the order given: to how many subscriptions it goes, and its number in the topic; null for one
--          that can be received now.
-- Raises   what pgqueue.publish_to_topic raises.
-- Locks    as pgqueue.publish_to_topic.
create or replace function pgqueue.send_to_topic(
    topic                   text,
    -- generated rows: {body to scheduled_enqueue_time: $arrays | $type[] | default null}, require_subscription |
    --     boolean | default false, {from session_id: $arrays | $type[] | default null}
    bodies                  jsonb[]       default null,
    binary_bodies           bytea[]       default null,
    message_ids             text[]        default null,
    correlation_ids         text[]        default null,
    subjects                text[]        default null,
    content_types           text[]        default null,
    reply_tos               text[]        default null,
    application_properties  jsonb[]       default null,
    priorities              integer[]     default null,
    times_to_live           interval[]    default null,
    scheduled_enqueue_times timestamptz[] default null,
    require_subscription    boolean       default false,
    session_ids             text[]        default null,
    reply_to_session_ids    text[]        default null,
    tos                     text[]        default null,
    partition_keys          text[]        default null,
    unique_keys             text[]        default null,
    unique_scopes           text[]        default null
    -- end
)
returns table (copies integer, sequence_number bigint)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    return query
        select unnest(counts), unnest(coalesce(numbers, array_fill(null::bigint, array[cardinality(counts)])))
          from pgqueue._publish_to_topic(
            -- generated: topic, {body to scheduled_enqueue_time: $arrays}, require_subscription,
            --     {from session_id: $arrays}
            topic, bodies, binary_bodies, message_ids, correlation_ids, subjects, content_types, reply_tos,
            application_properties, priorities, times_to_live, scheduled_enqueue_times, require_subscription,
            session_ids, reply_to_session_ids, tos, partition_keys, unique_keys, unique_scopes
            -- end
        );
end
$$;
