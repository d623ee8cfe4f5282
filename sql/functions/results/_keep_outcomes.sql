-- Records the outcomes of messages whose rows are locked, in a queue with `result_retention`, as part of the settlement. A message that was
-- received and deleted counts as COMPLETED. One that is neither completed nor dead-lettered is DELETED, with the history's outcome as the
-- reason. The error of the last delivery that failed is kept with the reason.
-- Raises  PQ005 result too large.
create or replace function pgqueue._keep_outcomes(
    queue            pgqueue.queue,
    sequence_numbers bigint[],
    outcome          text,
    reason           text  default null,
    description      text  default null,
    result           jsonb default null
)
returns void
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_variable
declare
    ended text := case when outcome in ('COMPLETED', 'RECEIVED_AND_DELETED') then 'COMPLETED'
                       when outcome = 'DEAD_LETTERED' then outcome
                       else 'DELETED' end;
    bytes bigint := octet_length(convert_to(result::text, 'UTF8'));
begin
    if bytes > queue.max_message_size then
        perform pgqueue._refuse_size(queue, format('the result of message %s', sequence_numbers[1]), bytes);
    end if;
    insert into pgqueue.outcome (queue_id, sequence_number, state, result, error, settled_at)
    select queue.id, number, ended, result,
           case when ended <> 'COMPLETED' then
               jsonb_build_object('reason', coalesce(reason, outcome), 'description', description, 'last_error', (
                   select last_error
                     from pgqueue.failed_message as known
                    where known.queue_id = queue.id and known.sequence_number = number))
           end,
           pgqueue.clock()
      from (select distinct unnest(sequence_numbers)) as settled (number)                      -- two may have the same number
        on conflict on constraint outcome_pkey do update
       set state = excluded.state, result = excluded.result, error = excluded.error, settled_at = excluded.settled_at;
    perform pgqueue._notify_settled(queue, sequence_numbers);
end
$$;
