-- Returns the last id that was handed out for a table whose ids are numbered, 0 if none was.
create or replace function pgqueue._last_id(numbered regclass)
returns bigint
language sql volatile
return coalesce(pg_sequence_last_value(pg_get_serial_sequence(numbered::text, 'id')::regclass), 0);
