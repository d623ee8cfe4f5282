-- Returns whether the caller may receive from a queue with these receivers; see pgqueue._may_send.
create or replace function pgqueue._may_receive(receivers text[])
returns boolean
language sql stable
return case when current_setting('role') = 'none' then pg_has_role(session_user, current_user, 'usage') or session_user = any (receivers) else false end
       or pgqueue._is_permitted(receivers, '{pgqueue_receiver,pgqueue_admin}');
