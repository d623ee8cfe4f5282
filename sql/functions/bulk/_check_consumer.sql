-- Checks that the caller may receive from the queue of a consumer, and that this epoch is that of the session that
-- attached last. The epoch is the fence against all earlier sessions, however late their calls come.
-- Raises  PQ007 invalid argument, PQ010 consumer fenced, 42501 access denied.
create or replace function pgqueue._check_consumer(known pgqueue.consumer, epoch bigint)
returns void
language plpgsql
as $$
declare
    source pgqueue.queue;
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    select * into source from pgqueue.queue where id = known.queue_id;
    if found and not pgqueue._may_receive(source.receivers) then
        perform pgqueue._refuse_access('RECEIVE', source.name);
    end if;
    if epoch is null then
        perform pgqueue._refuse_argument(
            'epoch', 'pgqueue.attach_consumer has returned it, and pgqueue.consumers shows it; a pgqueue older than this schema names none',
            'null');
    end if;
    if epoch <> known.epoch then
        perform pgqueue._refuse(
            'PQ010', format('epoch %s of consumer %s is not the current one, %s: another session works for it now',
                            epoch, quote_literal(known.name), known.epoch),
            'The other query settles its claims. Roll back, and start this one again when no other query is running.');
    end if;
end
$$;
