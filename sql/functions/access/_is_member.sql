-- Returns whether the caller is one of these roles, a member of one, or everybody is meant by `public`. Roles that do
-- not exist here have no members.
create or replace function pgqueue._is_member(roles text[])
returns boolean
language sql stable
as $$
    select 'public' = any (roles) or exists (
           select from pg_catalog.pg_roles where rolname = any (roles) and pg_has_role(pgqueue._caller(), oid, 'usage'))
$$;
