-- Returns the highest id in a table whose ids are numbered, 0 if it has no rows.
create or replace function pgqueue._highest_id(numbered regclass)
returns bigint
language plpgsql stable
as $$
declare
    highest bigint;
begin
    execute format('select max(id) from %s', numbered) into highest;
    return coalesce(highest, 0);
end
$$;
