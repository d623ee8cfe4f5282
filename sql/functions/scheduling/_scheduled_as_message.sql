-- Converts a scheduled message to a message, without its time.
create or replace function pgqueue._scheduled_as_message(scheduled pgqueue.scheduled_message)
returns pgqueue.message
language sql immutable
as $$
    select scheduled.sequence_number, scheduled.position, scheduled.enqueued_time, scheduled.locked_until,
           scheduled.queue_id, scheduled.delivery_count, scheduled.lane, scheduled.lock_token, scheduled.locked_by,
           -- generated: {body to application_properties: scheduled.$name}, scheduled.expires_at,
           --     scheduled.time_to_live, scheduled.first_locked_at, scheduled.session_id, scheduled.hops,
           --     {after session_id if is_kept: scheduled.$name}
           scheduled.body, scheduled.binary_body, scheduled.message_id, scheduled.correlation_id, scheduled.subject,
           scheduled.content_type, scheduled.reply_to, scheduled.application_properties, scheduled.expires_at,
           scheduled.time_to_live, scheduled.first_locked_at, scheduled.session_id, scheduled.hops,
           scheduled.reply_to_session_id, scheduled."to", scheduled.partition_key
           -- end
           ;
$$;
