-- The default name of a lock's holder: application name and backend process.
create or replace function pgqueue._backend_name()
returns text
language sql stable
return coalesce(nullif(current_setting('application_name'), ''), session_user) || ':' || pg_backend_pid();
