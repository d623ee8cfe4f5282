-- Raises an error. Its detail ends with a new id, by which the error of the client is found in the log of the server.
create or replace function pgqueue._refuse(code text, message text, hint text default null, detail text default null)
returns void
language plpgsql
as $$
begin
    detail := concat_ws(' ', detail, format('Tracking id %s.', right(gen_random_uuid()::text, 12)));
    if hint is null then
        raise exception using errcode = code, message = message, detail = detail;
    end if;
    raise exception using errcode = code, message = message, detail = detail, hint = hint;
end
$$;
