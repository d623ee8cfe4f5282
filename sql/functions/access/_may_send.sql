-- Returns whether the caller may send to a queue with these senders. For verbs only: they run as their owner, and the
-- owner's members may do everything.
create or replace function pgqueue._may_send(senders text[])
returns boolean
language sql stable
return pg_has_role(pgqueue._caller(), current_user, 'usage') or pgqueue._caller() = any (senders)
       or pgqueue._is_member(senders || '{pgqueue_sender,pgqueue_admin}'::text[]);
