-- Returns the id of the transaction that has just settled something, or of the savepoint in it. A savepoint that has
-- written has an id of its own, and pg_xact_status returns whether it was rolled back. It is the latest of all ids that
-- this session holds.
create or replace function pgqueue._settling_xid()
returns xid8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    whole xid8 := pg_current_xact_id();
    later bigint;                                        -- ids are 32 bits wide in pg_locks, and wrap around
begin
    select max((transactionid::text::bigint - whole::xid::text::bigint + 4294967296) % 4294967296) into later
      from pg_locks
     where locktype = 'transactionid' and pid = pg_backend_pid() and mode = 'ExclusiveLock';
    return (whole::text::numeric + later)::text::xid8;
end
$$;
