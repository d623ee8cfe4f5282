-- Returns whether a message satisfies a JSON path. It does not when the path fails on it: some errors are raised although
-- PostgreSQL is told to be silent, such as a comparison of times with and without a zone.
create or replace function pgqueue._satisfies(message jsonb, path jsonpath)
returns boolean
language plpgsql immutable
as $$
begin
    return coalesce(jsonb_path_match(message, path, silent => true), false);
exception when others then
    return false;
end
$$;
