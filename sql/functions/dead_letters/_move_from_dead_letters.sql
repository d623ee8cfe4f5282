-- Moves dead letters whose rows are locked into the redelivery lanes of their priorities, or to the ends of their
-- sessions, in the order they were sent. Their time to live starts again. Where they come from and what they died of is
-- kept with them.
-- Returns  their sequence numbers.
create or replace function pgqueue._move_from_dead_letters(places tid[])
returns setof bigint
language plpgsql
as $$
begin
    perform pg_current_xact_id();        -- take a transaction id before drawing a number, as in pgqueue.send
    perform pgqueue._announce_sessions(queue_id, array_agg(session_id))
       from pgqueue.dead_letter
      where ctid = any (places) and lane = 2000
      group by queue_id;
    return query
        with gone as (
            delete from pgqueue.dead_letter where ctid = any (places) returning *
        ), ordered as materialized (
            select * from gone order by sequence_number
        ), remembered as (
            insert into pgqueue.failed_message as known (queue_id, sequence_number, resubmitted_from)
            select distinct on (gone.queue_id, gone.sequence_number) gone.queue_id, gone.sequence_number,
                   jsonb_build_object(
                       'queue', queue.name || '/$deadletterqueue', 'reason', dead_letter_reason,
                       'description', dead_letter_error_description, 'dead_lettered_at', dead_lettered_at,
                       'delivery_count', gone.delivery_count, 'resubmitted_at', pgqueue.clock(), 'times', 1)
              from ordered as gone
              join pgqueue.queue on queue.id = gone.queue_id
             order by gone.queue_id, gone.sequence_number, dead_lettered_at desc      -- two may have the same number
                on conflict on constraint failed_message_pkey do update
               set last_error       = null,
                   resubmitted_from = excluded.resubmitted_from || jsonb_build_object(
                       'last_error', known.last_error,
                       'times', coalesce((known.resubmitted_from -> 'times')::integer, 0) + 1))
        insert into pgqueue.message (
            -- generated: sequence_number, position, enqueued_time, queue_id, lane, {body to application_properties},
            --     expires_at, time_to_live, {from session_id if is_kept}
            sequence_number, position, enqueued_time, queue_id, lane, body, binary_body, message_id, correlation_id,
            subject, content_type, reply_to, application_properties, expires_at, time_to_live, session_id,
            reply_to_session_id, "to", partition_key
            -- end
        )
        select
               -- generated: sequence_number, nextval('pgqueue.sequence_number'), enqueued_time, queue_id, lane,
               --     {body to application_properties},
               sequence_number, nextval('pgqueue.sequence_number'), enqueued_time, queue_id, lane, body, binary_body,
               message_id, correlation_id, subject, content_type, reply_to, application_properties,
               -- end
               pgqueue.clock() + time_to_live, time_to_live,
               -- generated: {from session_id if is_kept}
               session_id, reply_to_session_id, "to", partition_key
               -- end
          from ordered
        returning sequence_number;
end
$$;
