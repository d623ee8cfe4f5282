-- Returns whether a savepoint of this transaction wrote a row, which the transaction sees and whose `xmin` is not its own id. If so, the writer
-- is still in progress; the writers of all other rows that it sees are not.
create or replace function pgqueue._is_of_savepoint(xmin xid)
returns boolean
language plpgsql
as $$
declare
    whole xid8   := pg_current_xact_id();                    -- ids of savepoints are later ones
    later bigint := (xmin::text::bigint - whole::xid::text::bigint + 4294967296) % 4294967296;
begin
    return later < 2147483648 and pg_xact_status((whole::text::bigint + later)::text::xid8) = 'in progress';
end
$$;
