-- Converts a message to the row that receives and peeks return. Only its receiver is shown the token of a lock. It pins
-- no search path, so that it is inlined: a receive pays for no call, nor does the first delivery in a session or group, before
-- which nothing has gone wrong. Where its lane is one that receives scan, `is_scanned` saves the conditions of others.
create or replace function pgqueue._as_received(
    message pgqueue.message, lock_token uuid default null, scheduled_enqueue_time timestamptz default null,
    is_scanned boolean default false)
returns pgqueue.received_message
language sql
as $$
    select row(
        message.sequence_number, lock_token, message.locked_until, message.locked_by, message.delivery_count,
        message.enqueued_time, message.expires_at, scheduled_enqueue_time,
        case when is_scanned then message.lane >> 1 else pgqueue._priority(message.lane) end,
        case when is_scanned then false else pgqueue._is_deferred(message.lane) end,
        -- generated: {body to application_properties: message.$name}, null, null, null,
        message.body, message.binary_body, message.message_id, message.correlation_id, message.subject,
        message.content_type, message.reply_to, message.application_properties, null, null, null,
        -- end
        case when (is_scanned or message.lane & 1::smallint = 0::smallint)
                  and (lock_token is null or message.delivery_count > 1 or message.position <> message.sequence_number)
             then pgqueue._failures(message.queue_id, message.sequence_number) end,
        -- generated: message.queue_id, message.lane, message.position, {from session_id if is_kept: message.$name}
        message.queue_id, message.lane, message.position, message.session_id, message.reply_to_session_id, message."to",
        message.partition_key
        -- end
        )::pgqueue.received_message;
$$;
