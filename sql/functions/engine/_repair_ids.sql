-- Lets the ids of a table go on after the highest one, where a logical replication or a restore of data alone has left their
-- sequence behind.
-- Locks  the row of the installation, if there is anything to do: a second repair would hand out again what the first has.
create or replace function pgqueue._repair_ids(numbered regclass)
returns void
language plpgsql
as $$
begin
    if pgqueue._highest_id(numbered) <= pgqueue._last_id(numbered) then
        return;
    end if;
    perform from pgqueue.installation for no key update;
    if pgqueue._highest_id(numbered) > pgqueue._last_id(numbered) then
        perform setval(pg_get_serial_sequence(numbered::text, 'id'), pgqueue._highest_id(numbered));
    end if;
end
$$;
