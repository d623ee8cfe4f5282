-- Converts a dead letter to the row that receives and peeks return; see pgqueue._as_received.
create or replace function pgqueue._dead_letter_as_received(dead pgqueue.dead_letter, lock_token uuid default null)
returns pgqueue.received_message
language sql
as $$
    select row(
        dead.sequence_number, lock_token, dead.locked_until, dead.locked_by, dead.delivery_count, dead.enqueued_time,
        null, null, pgqueue._priority(dead.lane), false,
        -- generated: {body to application_properties: dead.$name},
        dead.body, dead.binary_body, dead.message_id, dead.correlation_id, dead.subject, dead.content_type,
        dead.reply_to, dead.application_properties,
        -- end
        dead.dead_letter_reason, dead.dead_letter_error_description, dead.dead_lettered_at,
        pgqueue._failures(dead.queue_id, dead.sequence_number),
        -- generated: dead.queue_id, dead.lane, dead.position, {from session_id if is_kept: dead.$name}
        dead.queue_id, dead.lane, dead.position, dead.session_id, dead.reply_to_session_id, dead."to",
        dead.partition_key
        -- end
        )::pgqueue.received_message;
$$;
