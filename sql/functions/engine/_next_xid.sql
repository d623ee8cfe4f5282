-- Returns a transaction id above every id that was assigned before this call, including those of open transactions. The
-- end of a snapshot is not enough, since it is above the ids of ended transactions only; nor is this transaction's own
-- id, which may be older. So a subtransaction takes the next id, and is rolled back.
-- Raises  25006 read-only transaction, on a standby, where PostgreSQL itself calls it an internal error.
create or replace function pgqueue._next_xid()
returns xid8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_is_in_recovery() then
        raise read_only_sql_transaction using message = 'a standby gives out no transaction ids, so nothing is received from it';
    end if;
    begin
        perform pg_logical_emit_message(true, 'pgqueue', ''::text);      -- assigns an id without writing to a table
        raise sqlstate 'PQ000';
    exception when sqlstate 'PQ000' then
        return pg_snapshot_xmax(pg_current_snapshot());
    end;
end
$$;
