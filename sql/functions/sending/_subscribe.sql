-- Asks for a NOTIFY when messages arrive in these queues within the given time, an hour at most, rounded up to five
-- seconds; null ends the subscription. Queues that the caller may not receive from are skipped, and so is one whose row
-- another session is changing when it is to be rewritten.
--
-- The time of a subscription is part of its key: senders look at the times to come only, so rows that have died cost
-- them nothing. The queue's row, which every verb reads, shows that there may be subscriptions; it is rewritten once in
-- ten minutes at most.
-- Returns  the channels to listen on, and the names of the queues that notify on each.
create or replace function pgqueue._subscribe(queues text[], lasts interval)
returns table (channel text, queue text)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    moment   timestamptz := pgqueue.clock();
    until    timestamptz := date_bin(
        interval '5 seconds', moment + greatest(least(lasts, interval '1 hour'), interval '0'), timestamptz 'epoch') + interval '5 seconds';
    wanted   integer[];
    extended integer[];
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    wanted := array(select id from pgqueue.queue where name = any (queues) and pgqueue._may_receive(receivers));
    if lasts is null then
        delete from pgqueue.waiting_consumer where queue_id = any (wanted) and waits_until > moment;
        return query select 'pgqueue_' || (hashtext(name) & 15), name from pgqueue.queue where id = any (wanted);
        return;
    end if;
    with changed as (
        update pgqueue.queue
           set awaited_until = until + interval '10 minutes'
         where id = any (array(
                   select id
                     from pgqueue.queue
                    where id = any (wanted) and (awaited_until is null or awaited_until < until)
                    order by id
                      for update skip locked))
        returning id)
    select array_agg(id) into extended from changed;
    delete from pgqueue.waiting_consumer where queue_id = any (extended) and waits_until <= moment;
    wanted := array(select id from pgqueue.queue where id = any (wanted) and awaited_until >= until order by id);
    insert into pgqueue.waiting_consumer (queue_id, waits_until) select unnest(wanted), until
        on conflict do nothing;
    return query select 'pgqueue_' || (hashtext(name) & 15), name from pgqueue.queue where id = any (wanted);
end
$$;
