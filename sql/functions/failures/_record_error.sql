-- Records the error that a delivery failed with as the last error of the message, whose row is locked, and adds it to the
-- message's log if the queue retains errors. Of long texts the beginning is kept, of a long traceback the end. A null
-- error records nothing.
create or replace function pgqueue._record_error(
    queue pgqueue.queue, sequence_number bigint, delivery_count integer, locked_by text, error jsonb)
returns void
language plpgsql
set enable_bitmapscan = off
as $$
#variable_conflict use_variable
declare
    entry jsonb := jsonb_build_object(
        'type', left(error ->> 'type', 200), 'text', left(error ->> 'text', 2000), 'traceback', right(error ->> 'traceback', 8000),
        'delivery_count', delivery_count, 'failed_at', pgqueue.clock(), 'locked_by', locked_by);
begin
    if error is null then
        return;
    end if;
    insert into pgqueue.failed_message as known (queue_id, sequence_number, last_error, delivery_log)
    values (queue.id, sequence_number, entry, case when queue.retain_errors is not null then jsonb_build_array(entry) end)
        on conflict on constraint failed_message_pkey do update
       set last_error   = excluded.last_error,
           delivery_log = (
               select jsonb_agg(logged order by nth)
                 from jsonb_array_elements(coalesce(known.delivery_log, '[]') || excluded.delivery_log)
                      with ordinality as log (logged, nth)
                where nth > jsonb_array_length(coalesce(known.delivery_log, '[]')) + 1 - queue.retain_errors);
end
$$;
