-- Returns what went wrong with a message, as a JSON object of the columns of pgqueue.failed_message; null when nothing did.
create or replace function pgqueue._failures(queue_id integer, sequence_number bigint)
returns jsonb
language sql
set enable_seqscan = off
set enable_bitmapscan = off
as $$
    select jsonb_build_object('last_error', last_error, 'delivery_log', delivery_log, 'resubmitted_from', resubmitted_from,
                              'forwarded_from', forwarded_from)
      from pgqueue.failed_message
     where queue_id = _failures.queue_id and sequence_number = _failures.sequence_number;
$$;
