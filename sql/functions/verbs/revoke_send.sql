-- Takes back what pgqueue.grant_send has given; a role that does not have it, or does not exist any more, is no error.
-- Raises  PQ002 unknown queue, 42501 access denied.
-- Locks   as pgqueue.grant_send.
create or replace function pgqueue.revoke_send(queue text, role text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_admin(queue);
    update pgqueue.queue set senders = array_remove(senders, role) where name = revoke_send.queue;
    if not found then
        update pgqueue.topic set senders = array_remove(senders, role) where name = revoke_send.queue;
    end if;
    if not found then
        perform pgqueue._refuse_unknown_queue(queue);
    end if;
end
$$;
