-- Returns whether the views show the caller what was staged for a queue with these senders, and published in it; see
-- pgqueue._may_see_messages.
create or replace function pgqueue._may_view_sent(senders text[])
returns boolean
language sql stable
security definer set search_path = pg_catalog, pg_temp
return pgqueue._check_caller() and pgqueue._may_send(senders);
