-- Checks that the caller may receive from every queue: the views that Spark reads tables by ask this once in a statement.
-- Returns  true.
-- Raises   42501 access denied.
create or replace function pgqueue._check_reader()
returns boolean
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_caller();
    if not pgqueue._may_receive('{}') then
        perform pgqueue._refuse_access('RECEIVE');
    end if;
    return true;
end
$$;
