-- Lets a role send to a queue or a topic; `public` is every role.
-- It may also schedule messages and cancel scheduled ones. It cannot see what the queue holds.
-- Raises  PQ002 unknown queue, PQ007 invalid argument, 42501 access denied.
-- Locks   the row of the queue or topic, until the transaction ends: other changes to it wait, senders and receivers do not.
create or replace function pgqueue.grant_send(queue text, role text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_grant(role, queue);
    update pgqueue.queue set senders = array_remove(senders, role) || role where name = grant_send.queue;
    if not found then
        update pgqueue.topic set senders = array_remove(senders, role) || role where name = grant_send.queue;
    end if;
    if not found then
        perform pgqueue._refuse_unknown_queue(queue);
    end if;
end
$$;
