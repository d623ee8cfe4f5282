-- Locks the table that stands for what only one may do at a time. That takes a right on the table, unlike an advisory lock,
-- which every role of the server may take; and it writes nothing.
-- Returns  whether this transaction holds the lock; false while another one does.
-- Locks    the table, until the transaction ends; does not wait.
create or replace function pgqueue._only_one(lock_table regclass)
returns boolean
language plpgsql
as $$
begin
    execute format('lock table %s in share update exclusive mode nowait', lock_table);
    return true;
exception when lock_not_available then
    return false;
end
$$;
