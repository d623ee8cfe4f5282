-- Moves locked rows to the scheduled messages until `until`. Then they return to the redelivery lanes of their
-- priorities, or to the deferred messages.
create or replace function pgqueue._delay(places tid[], until timestamptz)
returns void
language sql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
    with gone as (
        delete from pgqueue.message where ctid = any (places) returning *)
    insert into pgqueue.scheduled_message (
        sequence_number, position, enqueued_time, queue_id, delivery_count, lane, body, binary_body, message_id,
        correlation_id, subject, content_type, reply_to, application_properties, expires_at, time_to_live,
        first_locked_at, scheduled_enqueue_time)
    select sequence_number, position, enqueued_time, queue_id, delivery_count, lane & ~1, body, binary_body, message_id,
           correlation_id, subject, content_type, reply_to, application_properties, expires_at, time_to_live,
           first_locked_at, until
      from gone;
$$;
