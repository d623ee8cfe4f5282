-- Returns whether the caller may send to a queue with these senders. For verbs only: they run as their owner, and the
-- owner's members may do everything.
create or replace function pgqueue._may_send(senders text[])
returns boolean
language sql stable
return case when current_setting('role') = 'none' then pg_has_role(session_user, current_user, 'usage') or session_user = any (senders) else false end
       or pgqueue._is_permitted(senders, '{pgqueue_sender,pgqueue_admin}');
