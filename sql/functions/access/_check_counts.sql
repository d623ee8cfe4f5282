-- Checks that the caller may see counts of all queues: the view pgqueue.queues asks this once in a statement.
-- Returns  true.
-- Raises   42501 access denied.
create or replace function pgqueue._check_counts()
returns boolean
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_monitor();
    return true;
end
$$;
