-- Checks that the caller may give rights, and that there is a role to be given them: `public` for a queue only.
-- Raises  PQ007 invalid argument, 42501 access denied.
create or replace function pgqueue._check_grant(role text, queue text default null)
returns void
language plpgsql
as $$
begin
    perform pgqueue._check_admin(queue);
    if role is null or (role <> 'public' or queue is null) and not exists (select from pg_roles where rolname = role) then
        perform pgqueue._refuse_argument('role', 'the name of an existing role', quote_nullable(role));
    end if;
end
$$;
