-- Returns the role that calls: the one of SET ROLE, else the one that has logged in. Verbs run with the rights of their
-- owner, so current_user is the owner there. A function of an application's that is a security definer itself does not
-- change the caller.
create or replace function pgqueue._caller()
returns name
language sql stable parallel safe
return coalesce(nullif(current_setting('role'), 'none')::name, session_user);
