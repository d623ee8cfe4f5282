-- Deletes locked rows for good, with what went wrong with them, and records what became of them, if their queue
-- does: that is read again, because the first member of a batch may be younger than what the caller knows of the queue.
-- Returns  how many were deleted.
create or replace function pgqueue._delete_messages(queue pgqueue.queue, places tid[], outcome text)
returns integer
language plpgsql
set enable_seqscan = off
as $$
#variable_conflict use_variable
declare
    removed integer;
begin
    if (select known.records_settlements from pgqueue.queue as known where known.id = queue.id) then
        perform pgqueue._record_settlement(
            queue, array(select message.sequence_number from pgqueue.message where ctid = any (places)), outcome);
    end if;
    perform pgqueue._forget_failures(queue.id, array(
        select message.sequence_number from pgqueue.message where ctid = any (places) and lane & 1::smallint = 0::smallint));
    if queue.retain_history is null then
        delete from pgqueue.message where ctid = any (places);
    else
        with gone as (
            delete from pgqueue.message where ctid = any (places) returning message)
        insert into pgqueue.settled_message
        select settled.* from gone cross join lateral pgqueue._history_row(gone.message, outcome) as settled;
    end if;
    get diagnostics removed = row_count;
    return removed;
end
$$;
