-- Returns an error in one line, its type and the first line of its text; null for none.
create or replace function pgqueue._error_line(error jsonb)
returns text
language sql stable
return nullif(concat_ws(': ', error ->> 'type', nullif(split_part(error ->> 'text', chr(10), 1), '')), '');
