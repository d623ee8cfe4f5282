-- Sends one message to a topic: stores it in each subscription whose filter matches, in one statement. Each of them treats it as
-- a message of its own: with its own sequence number, and its own settings. Filters are applied when the message is sent,
-- also to one with a `scheduled_enqueue_time`, which is cancelled in each subscription.
-- Returns  to how many subscriptions it goes. One that knows the message id already, because it detects duplicates, counts.
-- Raises   PQ040 unknown topic, PQ042 no subscription matches, when `require_subscription`. An error of one subscription, as
--          of pgqueue.send, is raised for all, and nothing is stored: PQ004 queue disabled, PQ005 message too large, PQ007
--          invalid argument, PQ008 queue full.
-- Locks    nothing of the topic, and in its subscriptions what pgqueue.send locks.
create or replace function pgqueue.publish_to_topic(
    topic                  text,
    -- generated rows: {body to scheduled_enqueue_time: $name | $type | default $default}, require_subscription |
    --     boolean | default false, {from session_id: $name | $type | default $default}
    body                   jsonb       default null,
    binary_body            bytea       default null,
    message_id             text        default null,
    correlation_id         text        default null,
    subject                text        default null,
    content_type           text        default null,
    reply_to               text        default null,
    application_properties jsonb       default null,
    priority               integer     default 0,
    time_to_live           interval    default null,
    scheduled_enqueue_time timestamptz default null,
    require_subscription   boolean     default false,
    session_id             text        default null,
    reply_to_session_id    text        default null,
    "to"                   text        default null,
    partition_key          text        default null,
    unique_key             text        default null,
    unique_scope           text        default null
    -- end
)
returns integer
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    return (pgqueue._publish_to_topic(
        -- generated: topic, {body to scheduled_enqueue_time: array[$name]}, require_subscription,
        --     {from session_id: array[$name]}
        topic, array[body], array[binary_body], array[message_id], array[correlation_id], array[subject],
        array[content_type], array[reply_to], array[application_properties], array[priority], array[time_to_live],
        array[scheduled_enqueue_time], require_subscription, array[session_id], array[reply_to_session_id], array["to"],
        array[partition_key], array[unique_key], array[unique_scope]
        -- end
    )).counts[1];
end
$$;
