-- Checks the id of a session.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_session_id(session_id text)
returns void
language plpgsql
as $$
begin
    if length(session_id) not between 1 and 128 then
        perform pgqueue._refuse_argument('session_id', 'a text of 1 to 128 characters', format('one of %s', length(session_id)));
    end if;
end
$$;
