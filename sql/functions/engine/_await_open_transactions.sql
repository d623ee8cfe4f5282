-- Records the open transactions that may still commit messages at or below the horizon, when the cursor moves there.
-- Returns  the progress, with the transactions that were not awaited yet.
create or replace function pgqueue._await_open_transactions(progress pgqueue.progress, open xid8[])
returns pgqueue.progress
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    late xid8[] := array(select xid from unnest(open) as xid where xid < progress.horizon_xid and xid <> all (progress.awaited));
begin
    progress.awaited       := progress.awaited || late;
    progress.awaited_above := progress.awaited_above || array_fill(progress.cursor, array[cardinality(late)]);
    return progress;
end
$$;
