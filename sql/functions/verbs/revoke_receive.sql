-- Takes back what pgqueue.grant_receive has given; a role that does not have it, or does not exist any more, is no error.
-- Raises  PQ002 unknown queue, 42501 access denied.
-- Locks   as pgqueue.grant_receive.
create or replace function pgqueue.revoke_receive(queue text, role text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_admin(queue);
    update pgqueue.queue set receivers = array_remove(receivers, role) where name = revoke_receive.queue;
    if not found then
        perform pgqueue._refuse_unknown_queue(queue);
    end if;
end
$$;
