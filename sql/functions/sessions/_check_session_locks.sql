-- Checks that there is a lock token for every session, and no session twice.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_session_locks(session_ids text[], lock_tokens uuid[])
returns void
language plpgsql
as $$
declare
    sessions integer := cardinality(session_ids);
    tokens   integer := cardinality(lock_tokens);
begin
    if sessions is null or sessions is distinct from tokens then
        perform pgqueue._refuse_argument(
            'lock_tokens', 'as many as the session_ids',
            format('%s for %s', coalesce(tokens, 0), coalesce(sessions, 0)));
    end if;
    if (select count(id) > count(distinct id) from unnest(session_ids) as id) then
        perform pgqueue._refuse_argument('session_ids', 'different sessions', session_ids::text);
    end if;
end
$$;
