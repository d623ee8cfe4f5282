-- Returns the row that the history keeps of a message that is settled now.
create or replace function pgqueue._history_row(message pgqueue.message, outcome text, reason text default null)
returns pgqueue.settled_message
language sql volatile
as $$
    select pgqueue._history_slot(now.moment), pgqueue._priority(message.lane), message.queue_id, message.sequence_number,
           pg_current_xact_id(), now.moment, message.enqueued_time, message.first_locked_at, message.delivery_count,
           coalesce(octet_length(message.binary_body), pg_column_size(message.body)), outcome, reason, message.locked_by,
           message.message_id, message.correlation_id, message.subject, message.content_type,
           message.session_id
      from (select pgqueue.clock() as moment) as now;
$$;
