-- Returns the text of pgqueue.explain_message for a message that is not dead, with all that is known about it.
create or replace function pgqueue._explanation(
    queue pgqueue.queue, sequence_number bigint, subject text, outcome text, delivery_count integer)
returns text
language sql stable
set enable_seqscan = off
as $$
    select concat_ws(' ',
        subject, outcome,
        case when (queue).status in ('DISABLED', 'RECEIVE_DISABLED')
             then format('The queue has the status %s: no consumer can receive from it.', (queue).status) end,
        case when (queue).paused_at is not null
             then format('The queue is paused since %s: pgqueue.resume_queue lets it hand out messages again.',
                         date_trunc('second', (queue).paused_at)) end,
        case when delivery_count > 0
             then format('It was delivered %s of %s times.', delivery_count, (queue).max_delivery_count) end,
        (select format('Delivery %s failed with %s.', last_error ->> 'delivery_count', pgqueue._error_line(last_error))
           from pgqueue.failed_message as known
          where known.queue_id = (queue).id and known.sequence_number = _explanation.sequence_number and last_error is not null));
$$;
