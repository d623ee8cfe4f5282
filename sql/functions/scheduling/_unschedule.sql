-- Moves scheduled messages whose rows are locked into the redelivery lanes of their priorities, to their sessions or
-- back to the deferred messages, in the order in which they are due.
-- Returns  where they are now, and the sessions that get them.
create or replace function pgqueue._unschedule(places tid[], out moved tid[], out sessions text[])
language plpgsql
as $$
begin
    perform pg_current_xact_id();        -- take a transaction id before drawing a number, as in pgqueue.send
    with due as (
        delete from pgqueue.scheduled_message where ctid = any (places) returning *
    ), ordered as materialized (
        select * from due order by scheduled_enqueue_time, sequence_number
    ), stored as (
        insert into pgqueue.message (
            -- generated: sequence_number, position, enqueued_time, queue_id, delivery_count, lane,
            --     {body to application_properties}, expires_at, time_to_live, first_locked_at, {from session_id if is_kept}, hops
            sequence_number, position, enqueued_time, queue_id, delivery_count, lane, body, binary_body, message_id,
            correlation_id, subject, content_type, reply_to, application_properties, expires_at, time_to_live,
            first_locked_at, session_id, reply_to_session_id, "to", partition_key, hops
            -- end
        )
        select
               -- generated: sequence_number, nextval('pgqueue.sequence_number'), enqueued_time, queue_id,
               --     delivery_count, lane & ~1, {body to application_properties}, expires_at, time_to_live,
               --     first_locked_at, {from session_id if is_kept},
               sequence_number, nextval('pgqueue.sequence_number'), enqueued_time, queue_id, delivery_count, lane & ~1,
               body, binary_body, message_id, correlation_id, subject, content_type, reply_to, application_properties,
               expires_at, time_to_live, first_locked_at, session_id, reply_to_session_id, "to", partition_key,
               -- end
               hops
          from ordered
        returning ctid as place, lane, session_id)
    select coalesce(array_agg(place), '{}'), array_agg(session_id) filter (where lane = 2000) into moved, sessions from stored;
end
$$;
