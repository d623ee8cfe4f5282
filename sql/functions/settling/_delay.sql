-- Moves locked rows to the scheduled messages until `until`. Then they return to the redelivery lanes of their
-- priorities, or to the deferred messages. A message of a session stays in its place, and holds its successors up until
-- then.
create or replace function pgqueue._delay(places tid[], until timestamptz)
returns void
language sql
as $$
    update pgqueue.message
       set locked_until = until, lock_token = null, locked_by = null
     where ctid = any (places) and lane = 2000;
    with gone as (
        delete from pgqueue.message where ctid = any (places) and lane <> 2000 returning *)
    insert into pgqueue.scheduled_message (
        -- generated: sequence_number, position, enqueued_time, queue_id, delivery_count, lane,
        --     {body to application_properties}, expires_at, time_to_live, first_locked_at, {from session_id if is_kept}, hops,
        sequence_number, position, enqueued_time, queue_id, delivery_count, lane, body, binary_body, message_id,
        correlation_id, subject, content_type, reply_to, application_properties, expires_at, time_to_live,
        first_locked_at, session_id, reply_to_session_id, "to", partition_key, hops,
        -- end
        scheduled_enqueue_time)
    select
           -- generated: sequence_number, position, enqueued_time, queue_id, delivery_count, lane & ~1,
           --     {body to application_properties}, expires_at, time_to_live, first_locked_at, {from session_id if is_kept},
           sequence_number, position, enqueued_time, queue_id, delivery_count, lane & ~1, body, binary_body, message_id,
           correlation_id, subject, content_type, reply_to, application_properties, expires_at, time_to_live,
           first_locked_at, session_id, reply_to_session_id, "to", partition_key,
           -- end
           hops, until
      from gone;
$$;
