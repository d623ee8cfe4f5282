-- Converts a message to the row that pgqueue.peek shows: with a time if it is scheduled, and without its lock token.
create or replace function pgqueue._message_as_scheduled(message pgqueue.message, scheduled_enqueue_time timestamptz default null)
returns pgqueue.scheduled_message
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select message.sequence_number, message.position, message.enqueued_time, message.locked_until, message.queue_id,
           message.delivery_count, message.lane, null::uuid, message.locked_by, message.body, message.binary_body,
           message.message_id, message.correlation_id, message.subject, message.content_type, message.reply_to,
           message.application_properties, scheduled_enqueue_time, message.expires_at, message.time_to_live,
           message.first_locked_at;
$$;
