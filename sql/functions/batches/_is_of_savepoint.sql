-- Returns whether a row that this transaction sees, and that has no id of its own in `xmin`, was written in a savepoint of it: the
-- writers of all other rows that it sees are no longer in progress.
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
