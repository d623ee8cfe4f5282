-- Lets a role receive from a queue; `public` is every role.
-- It may also settle, peek and resubmit messages, and see those of this queue in the views. It cannot send.
-- Raises  PQ002 unknown queue, PQ007 invalid argument, 42501 access denied.
-- Locks   the queue's row, until the transaction ends: other changes to it wait, senders and receivers do not.
create or replace function pgqueue.grant_receive(queue text, role text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_grant(role, queue);
    update pgqueue.queue set receivers = array_remove(receivers, role) || role where name = grant_receive.queue;
    if not found then
        perform pgqueue._refuse_unknown_queue(queue);
    end if;
end
$$;
