-- Converts a dead letter to the message it was, without the reason of dead-lettering.
create or replace function pgqueue._dead_letter_as_message(dead pgqueue.dead_letter)
returns pgqueue.message
language sql immutable
set search_path = pg_catalog, pg_temp
as $$
    select dead.sequence_number, dead.position, dead.enqueued_time, dead.locked_until, dead.queue_id, dead.delivery_count,
           dead.lane, dead.lock_token, dead.locked_by, dead.body, dead.binary_body, dead.message_id, dead.correlation_id,
           dead.subject, dead.content_type, dead.reply_to, dead.application_properties, null::timestamptz, dead.time_to_live,
           null::timestamptz;
$$;
