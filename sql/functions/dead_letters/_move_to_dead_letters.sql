-- Moves messages whose rows are locked to the dead letters of their queue, or to the queue that collects these, if it has one
-- and they `may_forward`. A dead letter gets its position when its message is gone, so the transaction has an id by then; see
-- pgqueue._pass_front.
create or replace function pgqueue._move_to_dead_letters(
    queue pgqueue.queue, places tid[], reason text, description text, may_forward boolean default true)
returns void
language plpgsql
set enable_seqscan = off
as $$
#variable_conflict use_variable
begin
    if may_forward and queue.forward_dead_lettered_messages_to is not null then
        perform pgqueue._forward_dead_letters(queue, places, reason, description);
        return;
    end if;
    if (select known.records_settlements from pgqueue.queue as known where known.id = queue.id) then
        perform pgqueue._record_settlement(
            queue, array(select message.sequence_number from pgqueue.message where ctid = any (places)),
            'DEAD_LETTERED', reason, description);
    end if;
    with gone as (
        delete from pgqueue.message where ctid = any (places) returning *
    ), remembered as (
        insert into pgqueue.settled_message
        select settled.*
          from gone
         cross join lateral pgqueue._history_row(gone::pgqueue.message, 'DEAD_LETTERED', reason) as settled
         where queue.retain_history is not null)
    insert into pgqueue.dead_letter (
        -- generated: sequence_number, position, enqueued_time, queue_id, delivery_count, lane,
        --     {body to application_properties}, time_to_live, {from session_id if is_kept},
        sequence_number, position, enqueued_time, queue_id, delivery_count, lane, body, binary_body, message_id,
        correlation_id, subject, content_type, reply_to, application_properties, time_to_live, session_id,
        reply_to_session_id, "to", partition_key,
        -- end
        dead_letter_reason, dead_letter_error_description, dead_lettered_at)
    select sequence_number, nextval('pgqueue.sequence_number'), enqueued_time, queue_id, delivery_count,
           case when queue.requires_session or queue.fair then 2000 else 2 * pgqueue._priority(lane) end,
           -- generated: {body to application_properties}, time_to_live, {from session_id if is_kept},
           body, binary_body, message_id, correlation_id, subject, content_type, reply_to, application_properties,
           time_to_live, session_id, reply_to_session_id, "to", partition_key,
           -- end
           reason, description, pgqueue.clock()
      from gone;
end
$$;
