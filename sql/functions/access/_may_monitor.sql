-- Returns whether the caller may see counts and ages of all queues; see pgqueue._may_send.
create or replace function pgqueue._may_monitor()
returns boolean
language sql stable
return pg_has_role(pgqueue._caller(), current_user, 'usage')
       or pgqueue._is_member('{pgqueue_monitor,pgqueue_receiver,pgqueue_admin}');
