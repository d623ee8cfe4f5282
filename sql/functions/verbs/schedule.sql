-- Stores one message that cannot be received before `at`; otherwise it is like pgqueue.send. At that time the message
-- keeps its sequence number and goes before the fresh messages, like a redelivered one. Receivers find it within a
-- second.
-- Returns  its sequence number, with which it can be cancelled until then.
-- Raises   what pgqueue.send raises.
create or replace function pgqueue.schedule(
    queue                  text,
    body                   jsonb,
    at                     timestamptz,
    -- generated rows: {message_id to time_to_live: $name | $type | default $default},
    --     {from session_id: $name | $type | default $default}
    message_id             text     default null,
    correlation_id         text     default null,
    subject                text     default null,
    content_type           text     default null,
    reply_to               text     default null,
    application_properties jsonb    default null,
    priority               integer  default 0,
    time_to_live           interval default null,
    session_id             text     default null,
    reply_to_session_id    text     default null,
    "to"                   text     default null,
    partition_key          text     default null,
    unique_key             text     default null,
    unique_scope           text     default null
    -- end
)
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if at is null or not isfinite(at) then
        perform pgqueue._refuse_argument('at', 'a time', at::text);
    end if;
    return pgqueue.send(
        -- generated: queue, body, null, {message_id to time_to_live}, at, {from session_id: $name => $name}
        queue, body, null, message_id, correlation_id, subject, content_type, reply_to, application_properties,
        priority, time_to_live, at, session_id => session_id, reply_to_session_id => reply_to_session_id, "to" => "to",
        partition_key => partition_key, unique_key => unique_key, unique_scope => unique_scope
        -- end
    );
end
$$;
