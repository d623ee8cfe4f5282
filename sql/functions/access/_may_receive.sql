-- Returns whether the caller may receive from a queue with these receivers; see pgqueue._may_send.
create or replace function pgqueue._may_receive(receivers text[])
returns boolean
language sql stable
return current_setting('role') = 'none' and (pg_has_role(session_user, current_user, 'usage') or session_user = any (receivers))
       or pgqueue._is_permitted(receivers, '{pgqueue_receiver,pgqueue_admin}');
