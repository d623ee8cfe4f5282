-- Deletes messages and scheduled messages whose rows are locked, for good. Those that waited behind them in their
-- sessions can be received then.
-- Returns  how many were deleted.
create or replace function pgqueue._remove(queue pgqueue.queue, places tid[], scheduled tid[], outcome text)
returns bigint
language plpgsql
as $$
declare
    sessions text[]  := pgqueue._sessions_of(queue, places);
    removed  bigint;
begin
    removed := pgqueue._delete_messages(queue, places, outcome) + cardinality(pgqueue._delete_scheduled(queue, scheduled, outcome));
    perform pgqueue._release_successors(queue, sessions);
    return removed;
end
$$;
