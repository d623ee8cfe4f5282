-- Returns whether the caller may receive from a queue with these receivers; see pgqueue._may_send.
create or replace function pgqueue._may_receive(receivers text[])
returns boolean
language sql stable
return pg_has_role(pgqueue._caller(), current_user, 'usage') or pgqueue._caller() = any (receivers)
       or pgqueue._is_member(receivers || '{pgqueue_receiver,pgqueue_admin}'::text[]);
