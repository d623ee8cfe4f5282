-- Asks for a NOTIFY on pgqueue_settled when messages of these queues are settled, for the given time: an hour at most, rounded up to five
-- seconds; null ends the subscription. Skips queues without `result_retention`, and those whose outcomes the caller may not read. See
-- pgqueue._subscribe.
-- Returns  the channel to listen on, and the names of the queues.
create or replace function pgqueue._await_outcomes(queues text[], lasts interval)
returns table (channel text, queue text)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
    until  timestamptz := date_bin(
        interval '5 seconds', moment + greatest(least(lasts, interval '1 hour'), interval '0'), timestamptz 'epoch') + interval '5 seconds';
    wanted integer[];
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    wanted := array(
        select id
          from pgqueue.queue as known
         where name = any (queues) and result_retention is not null and pgqueue._permits('OUTCOME', known));
    if lasts is null then
        delete from pgqueue.waiting_for_outcome where queue_id = any (wanted) and waits_until > moment;
    else
        insert into pgqueue.waiting_for_outcome (queue_id, waits_until) select unnest(wanted), until
            on conflict do nothing;
    end if;
    return query select 'pgqueue_settled', name from pgqueue.queue where id = any (wanted);
end
$$;
