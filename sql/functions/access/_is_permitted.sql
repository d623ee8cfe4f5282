-- Returns whether the caller is a member of the owner, or one of these roles, or a member of one; see pgqueue._may_send. It
-- is not inlined: a statement prepares each expression that it contains, needed or not.
create or replace function pgqueue._is_permitted(granted text[], everywhere text[])
returns boolean
language plpgsql stable
as $$
begin
    return pg_has_role(pgqueue._caller(), current_user, 'usage') or pgqueue._is_member(granted || everywhere);
end
$$;
