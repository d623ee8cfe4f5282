-- Moves scheduled messages whose time has come into the redelivery lanes, at most `max_messages`, the earliest first.
-- Returns  how many were moved.
create or replace function pgqueue._activate_scheduled(queue_id integer, max_messages integer default 1000)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    moment    timestamptz := pgqueue.clock();
    activated integer;
begin
    perform pg_current_xact_id();        -- take a transaction id before drawing a number, as in pgqueue.send
    with due as (
        delete from pgqueue.scheduled_message
         where ctid = any (array(
                   select ctid
                     from pgqueue.scheduled_message
                    where queue_id = _activate_scheduled.queue_id and scheduled_enqueue_time <= moment
                    order by scheduled_enqueue_time
                    limit max_messages
                      for update skip locked))
        returning *
    ), ordered as materialized (
        select * from due order by scheduled_enqueue_time, sequence_number)
    insert into pgqueue.message (
        sequence_number, position, enqueued_time, queue_id, delivery_count, lane, body, binary_body,
        message_id, correlation_id, subject, content_type, reply_to, application_properties, expires_at, time_to_live,
        first_locked_at)
    select sequence_number, nextval('pgqueue.sequence_number'), enqueued_time, queue_id, delivery_count, lane & ~1, body, binary_body,
           message_id, correlation_id, subject, content_type, reply_to, application_properties, expires_at, time_to_live,
           first_locked_at
      from ordered;
    get diagnostics activated = row_count;
    return activated;
end
$$;
