-- Stores one message.
--
-- The message expires `time_to_live` after it is enqueued, or after the queue's own time to live if that is shorter;
-- without either it never expires. With a `scheduled_enqueue_time` it is enqueued at that time, and can be cancelled
-- until then. In a queue that requires sessions the message needs a `session_id`, and no priority; in others it is a plain
-- property. At most one message of the queue has a `unique_key` while it waits, or until it is settled (`unique_scope`); if another one has
-- it, `on_conflict` decides: 'ignore' stores nothing, 'replace' stores this message in its place, 'raise' is an error. See
-- docs/unique.md.
-- Returns  its sequence number; numbers increase, with a gap for every send that was rolled back. When the queue
--          detects duplicates and a message with this id was sent within the window, nothing is stored: the number is
--          that of the earlier message, and a notice reports it; with `negate_duplicate` the number is negative instead. The
--          same holds for a message whose unique key another one has, if it is ignored.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ005 message too large, PQ007 invalid argument, PQ008 queue
--          full, PQ012 duplicate message.
-- Locks    nothing that another sender or a receiver waits for, with three exceptions. In a queue that detects
--          duplicates, a sender of the same message id waits for this transaction. So does a sender of the same unique key, and the
--          message that has it is not received meanwhile. When a priority is used in a queue
--          for the first time, this sender and others that change the queue's row wait for each other: senders that use a
--          priority for the first time, pgqueue.pause_queue, pgqueue.alter_queue.
create or replace function pgqueue.send(
    queue                  text,
    -- generated rows: {body to scheduled_enqueue_time: $name | $type | default $default}, negate_duplicate | boolean |
    --     default false, {from session_id: $name | $type | default $default}, on_conflict | text | default 'ignore'
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
    negate_duplicate       boolean     default false,
    session_id             text        default null,
    reply_to_session_id    text        default null,
    "to"                   text        default null,
    partition_key          text        default null,
    unique_key             text        default null,
    unique_scope           text        default null,
    on_conflict            text        default 'ignore'
    -- end
)
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    target pgqueue.queue;
    xid    xid8 := pg_current_xact_id();    -- before a number is drawn: the watermark depends on it
    number bigint;
    moment timestamptz;
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    select * into target from pgqueue.queue where name = send.queue;
    if target.status is distinct from 'ACTIVE' or priority is distinct from 0 or (body is null) = (binary_body is null)
       or num_nonnulls(
           target.max_message_size, target.max_queue_length, target.auto_delete_on_idle, target.forward_to,
           -- generated: time_to_live, scheduled_enqueue_time, {from session_id}
           time_to_live, scheduled_enqueue_time, session_id, reply_to_session_id, "to", partition_key, unique_key,
           unique_scope
           -- end
          ) > 0
       or jsonb_typeof(application_properties) <> 'object' or pg_column_size(application_properties) > 65536
       or greatest(length(message_id), length(correlation_id), length(subject), length(content_type), length(reply_to)) > 128
       or target.requires_duplicate_detection or target.requires_session or target.fair
       or not pgqueue._may_send(target.senders) then                       -- in one condition, as in pgqueue.receive
        if target.id is null then
            perform pgqueue._refuse_unknown_queue(queue);
        elsif not pgqueue._may_send(target.senders) then
            perform pgqueue._refuse_access('SEND', queue);
        end if;
        return (pgqueue._send_any(
            -- generated: target, {body to scheduled_enqueue_time: array[$name]}, negate_duplicate,
            --     {from session_id: array[$name]}, on_conflict => on_conflict
            target, array[body], array[binary_body], array[message_id], array[correlation_id], array[subject],
            array[content_type], array[reply_to], array[application_properties], array[priority], array[time_to_live],
            array[scheduled_enqueue_time], negate_duplicate, array[session_id], array[reply_to_session_id], array["to"],
            array[partition_key], array[unique_key], array[unique_scope], on_conflict => on_conflict
            -- end
        ))[1];
    end if;
    number := nextval('pgqueue.sequence_number');
    moment := pgqueue.clock();
    insert into pgqueue.message (
        sequence_number, position, enqueued_time, queue_id, lane, body, binary_body,
        message_id, correlation_id, subject, content_type, reply_to, application_properties, expires_at, time_to_live
    ) values (
        number, number, moment, target.id, 1, body, binary_body,
        message_id, correlation_id, subject, content_type, reply_to, application_properties,
        moment + target.default_message_time_to_live, target.default_message_time_to_live
    );
    if target.awaited_until > moment then
        perform pgqueue._notify(target);
    end if;
    return number;
end
$$;
