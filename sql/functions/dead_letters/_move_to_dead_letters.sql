-- Moves messages whose rows are locked to the dead letters of their queue.
create or replace function pgqueue._move_to_dead_letters(queue pgqueue.queue, places tid[], reason text, description text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_variable
begin
    with gone as (
        delete from pgqueue.message where ctid = any (places) returning *
    ), remembered as (
        insert into pgqueue.settled_message
        select settled.*
          from gone
         cross join lateral pgqueue._history_row(gone::pgqueue.message, 'DEAD_LETTERED', reason) as settled
         where queue.retain_history is not null)
    insert into pgqueue.dead_letter (
        sequence_number, position, enqueued_time, queue_id, delivery_count, lane, body, binary_body, message_id,
        correlation_id, subject, content_type, reply_to, application_properties, time_to_live,
        dead_letter_reason, dead_letter_error_description, dead_lettered_at)
    select sequence_number, position, enqueued_time, queue_id, delivery_count, 2 * pgqueue._priority(lane), body, binary_body,
           message_id, correlation_id, subject, content_type, reply_to, application_properties, time_to_live,
           reason, description, pgqueue.clock()
      from gone;
end
$$;
