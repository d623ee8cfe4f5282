-- Checks that the statement is the caller's: not one of a function that PostgreSQL runs for a superuser who rebuilds or analyzes a table.
-- For functions that are stable, and for those that views call; others begin with the same command.
-- Returns  true.
-- Raises   42501 access denied.
create or replace function pgqueue._check_caller()
returns boolean
language plpgsql
as $$
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    return true;
end
$$;
