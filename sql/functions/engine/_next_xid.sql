-- A transaction id above every one that was assigned before this call, to transactions still open too. The end of a
-- snapshot is no such id, it is above those that have ended; nor is this transaction's own, if it had one before. So a
-- subtransaction is given the next id, and ended.
create or replace function pgqueue._next_xid()
returns xid8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    begin
        perform pg_logical_emit_message(true, 'pgqueue', ''::text);      -- assigns an id, and writes to no table
        raise sqlstate 'PQ000';
    exception when sqlstate 'PQ000' then
        return pg_snapshot_xmax(pg_current_snapshot());
    end;
end
$$;
