-- A message as receives and peeks return it. What does not apply is null: `scheduled_enqueue_time` unless the message is
-- scheduled, `lock_token` in a peek, the three columns of dead-lettering unless it is a dead letter, `failures` unless it
-- has failed or was resubmitted. The last three are the engine's: where the message is.
create type pgqueue.received_message as (
    sequence_number               bigint,
    lock_token                    uuid,
    locked_until                  timestamptz,
    locked_by                     text,
    delivery_count                integer,
    enqueued_time                 timestamptz,
    expires_at                    timestamptz,
    scheduled_enqueue_time        timestamptz,
    priority                      smallint,
    is_deferred                   boolean,
    body                          jsonb,
    binary_body                   bytea,
    message_id                    text,
    correlation_id                text,
    subject                       text,
    content_type                  text,
    reply_to                      text,
    application_properties        jsonb,
    dead_letter_reason            text,
    dead_letter_error_description text,
    dead_lettered_at              timestamptz,
    failures                      jsonb,
    queue_id                      integer,
    lane                          smallint,
    position                      bigint
);
