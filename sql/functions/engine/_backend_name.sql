-- The default name of a lock's holder: application name and backend process.
create or replace function pgqueue._backend_name()
returns text
language sql stable
return coalesce(nullif(current_setting('application_name'), ''), pgqueue._caller()) || ':' || pg_backend_pid();
