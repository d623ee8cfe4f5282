-- Waits up to a tenth of a second until no other receive holds this group, as pgqueue._allowance does for a queue.
-- Locks    the group, until the transaction ends.
create or replace function pgqueue._await_group(queue_id integer, id text)
returns void
language plpgsql
set lock_timeout = '100ms'
as $$
#variable_conflict use_column
begin
    perform from pgqueue.session where queue_id = _await_group.queue_id and session_id = id for update;
exception when lock_not_available then
    null;
end
$$;
