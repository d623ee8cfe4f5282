-- Moves scheduled messages whose time has come into the redelivery lanes or to their sessions, at most `max_messages`, the earliest
-- first; see pgqueue._pass_due_times for `due_from`.
-- Returns  how many were moved.
create or replace function pgqueue._activate_scheduled(queue_id integer, due_from timestamptz, max_messages integer default 1000)
returns integer
language plpgsql
as $$
#variable_conflict use_column
declare
    moment    timestamptz := pgqueue.clock();
    activated integer;
    sessions  text[];
begin
    perform pg_current_xact_id();        -- take a transaction id before drawing a number, as in pgqueue.send
    with due as (
        delete from pgqueue.scheduled_message
         where ctid = any (array(
                   select ctid
                     from pgqueue.scheduled_message
                    where queue_id = _activate_scheduled.queue_id and scheduled_enqueue_time between _activate_scheduled.due_from and moment
                    order by scheduled_enqueue_time
                    limit max_messages
                      for update skip locked))
        returning *
    ), ordered as materialized (
        select * from due order by scheduled_enqueue_time, sequence_number
    ), moved as (
        insert into pgqueue.message (
            -- generated: sequence_number, position, enqueued_time, queue_id, delivery_count, lane,
            --     {body to application_properties}, expires_at, time_to_live, first_locked_at, {from session_id}, hops
            sequence_number, position, enqueued_time, queue_id, delivery_count, lane, body, binary_body, message_id,
            correlation_id, subject, content_type, reply_to, application_properties, expires_at, time_to_live,
            first_locked_at, session_id, reply_to_session_id, "to", partition_key, hops
            -- end
        )
        select
               -- generated: sequence_number, nextval('pgqueue.sequence_number'), enqueued_time, queue_id,
               --     delivery_count, lane & ~1, {body to application_properties}, expires_at, time_to_live,
               --     first_locked_at, {from session_id},
               sequence_number, nextval('pgqueue.sequence_number'), enqueued_time, queue_id, delivery_count, lane & ~1,
               body, binary_body, message_id, correlation_id, subject, content_type, reply_to, application_properties,
               expires_at, time_to_live, first_locked_at, session_id, reply_to_session_id, "to", partition_key,
               -- end
               hops
          from ordered
        returning lane, session_id)
    select count(*), array_agg(session_id) filter (where lane = 2000) into activated, sessions from moved;
    if sessions is not null then
        perform pgqueue._announce_sessions(_activate_scheduled.queue_id, sessions);
    end if;
    return activated;
end
$$;
