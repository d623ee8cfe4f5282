-- Returns whether the views show the caller who holds the messages of a queue with these receivers, and until when; see
-- pgqueue._may_see_messages.
create or replace function pgqueue._may_see_locks(receivers text[])
returns boolean
language sql stable
security definer set search_path = pg_catalog, pg_temp
return pgqueue._check_caller() and (pgqueue._may_receive(receivers) or pgqueue._may_monitor());
