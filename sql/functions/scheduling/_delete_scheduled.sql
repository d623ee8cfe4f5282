-- Deletes scheduled messages whose rows are locked, with what went wrong with them, and records what became of them, if their
-- queue does.
-- Returns  their sequence numbers.
create or replace function pgqueue._delete_scheduled(queue pgqueue.queue, places tid[], outcome text)
returns bigint[]
language plpgsql
set enable_seqscan = off
as $$
#variable_conflict use_variable
declare
    removed bigint[];
begin
    with gone as (
        delete from pgqueue.scheduled_message where ctid = any (places) returning *
    ), remembered as (
        insert into pgqueue.settled_message
        select settled.*
          from gone
         cross join lateral pgqueue._history_row(pgqueue._scheduled_as_message(gone::pgqueue.scheduled_message), outcome) as settled
         where queue.retain_history is not null)
    select coalesce(array_agg(gone.sequence_number), '{}') into removed from gone;
    if (select known.records_settlements from pgqueue.queue as known where known.id = queue.id) then
        perform pgqueue._record_settlement(queue, removed, outcome);
    end if;
    perform pgqueue._forget_failures(queue.id, removed);
    return removed;
end
$$;
