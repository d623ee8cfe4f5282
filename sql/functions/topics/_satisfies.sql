-- Returns whether a message satisfies a JSON path. It does not when the path fails on it: some errors are raised even in
-- PostgreSQL's silent mode, such as a comparison of times with and without a zone, or a variable that does not exist.
-- An error that is not one of the path, such as a lack of memory, refuses the message.
create or replace function pgqueue._satisfies(message jsonb, path jsonpath)
returns boolean
language plpgsql immutable
as $$
begin
    return coalesce(jsonb_path_match(message, path, silent => true), false);
exception when data_exception or feature_not_supported or undefined_object then
    return false;
end
$$;
