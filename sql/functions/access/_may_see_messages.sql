-- Returns whether the views show the caller the messages of a queue with these receivers. Functions in a view run as the
-- role that selects from it, so this one takes the rights of its owner.
create or replace function pgqueue._may_see_messages(receivers text[])
returns boolean
language sql stable
security definer set search_path = pg_catalog, pg_temp
return pgqueue._check_caller() and pgqueue._may_receive(receivers);
