-- Records what became of messages whose rows are locked, of a queue with `records_settlements`: their outcomes, if the queue keeps these,
-- and in their batches. The history is written by those who delete the rows.
-- Raises  PQ005 result too large.
create or replace function pgqueue._record_settlement(
    queue            pgqueue.queue,
    sequence_numbers bigint[],
    outcome          text,
    reason           text  default null,
    description      text  default null,
    result           jsonb default null
)
returns void
language plpgsql
as $$
begin
    if queue.result_retention is not null then
        perform pgqueue._keep_outcomes(queue, sequence_numbers, outcome, reason, description, result);
    end if;
    if (select known.has_batches from pgqueue.queue as known where known.id = queue.id) then
        perform pgqueue._leave_batches(queue.id, sequence_numbers, outcome);
    end if;
end
$$;
