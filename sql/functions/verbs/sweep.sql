-- Tidies up all queues, or those with the given names, handling up to `max_messages`, or everything when null: deletes or dead-letters expired and
-- over-delivered messages, makes messages with expired locks and messages whose time has come available, deletes old
-- records, frees space, and repairs what a manual change or a restore has broken. Commit at once, and call it again
-- while there is `more`. With `dry_run`, everything is counted, without a bound, and nothing is changed.
--
-- A queue in which that means reading many rows is looked over once an hour, and whenever the sweep is `thorough`. Only one
-- sweep runs at a time in a database; another one that starts meanwhile does nothing. Where there are many queues, sweep those of
-- pgqueue.queues_to_sweep in transactions of their own. `queues` that do not exist are passed over, and without any, only what
-- belongs to no queue is swept. See docs/sweeper.md.
-- Returns  one row for each queue in which there was something to do, and one with a null queue when a day of history
--          was reclaimed, orphans were removed, the sequence was repaired or schedules were fired. A row whose `more` is null when
--          another sweep runs.
-- Raises   PQ007 invalid argument.
-- Locks    the messages; skips those that others hold.
create or replace function pgqueue.sweep(
    max_messages integer default 1000, dry_run boolean default false, thorough boolean default false, queues text[] default null)
returns table (
    queue text, expired integer, dead_lettered integer, returned integer, activated integer, forgotten integer,
    reclaimed_days integer, deleted_queues integer, forwarded integer, more boolean)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    remaining integer := max_messages;
    source    pgqueue.queue;
    swept     record;
    orphans   integer;
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    if dry_run then
        perform pgqueue._check_monitor();
    elsif not pgqueue._may_receive('{}') then            -- from all queues, as pgqueue_receiver and pgqueue_admin may
        perform pgqueue._refuse_access('ADMIN');
    end if;
    perform pgqueue._check_bound(max_messages);
    if not dry_run and not pgqueue._only_one('pgqueue.sweep_lock') then
        return query select null::text, 0, 0, 0, 0, 0, 0, 0, 0, null::boolean;
        return;
    end if;
    if not dry_run then
        perform pgqueue._discard_abandoned();
        perform pgqueue._repair_ids(numbered)
           from unnest('{queue,topic,schedule,audited_action}'::text[]) as name
          cross join lateral (select ('pgqueue.' || name)::regclass as numbered) as known;
        if pgqueue._is_sequence_behind(nullif(queues, '{}')) then            -- no number may be drawn before the repair
            if pgqueue._repair_sequence() then
                return query select null::text, 0, 0, 0, 0, 0, 0, 0, 0, true;
            end if;
            return;
        end if;
    end if;
    if queues <> '{}' then
        activated := 0;
    elsif dry_run then
        select count(*) into activated from pgqueue.schedule where fire_at <= pgqueue.clock();
    else
        perform pgqueue._mend_schedules();
        activated := pgqueue._fire_schedules(remaining);
        remaining := case when remaining < activated then 0 else remaining - activated end;       -- a schedule may send more; null is no bound
    end if;
    if activated > 0 then
        return query select null::text, 0, 0, 0, activated, 0, 0, 0, 0, coalesce(remaining <= 0, false);
        if remaining <= 0 then
            return;
        end if;
    end if;
    for source in
        select * from pgqueue.queue where queues is null or name = any (queues) order by random()    -- so that none is always the last
    loop
        if pgqueue._delete_idle(source, dry_run) then
            return query select source.name, 0, 0, 0, 0, 0, 0, 1, 0, false;
            continue;
        end if;
        if dry_run then
            select * into swept from pgqueue._preview_sweep(source, pgqueue._swept_until(source.id, thorough));
        else
            select * into swept from pgqueue._sweep_queue(source, remaining, pgqueue._swept_until(source.id, thorough));
        end if;
        remaining      := remaining - swept.handled;
        queue          := source.name;
        expired        := swept.expired;
        dead_lettered  := swept.dead_lettered;
        returned       := swept.returned;
        activated      := swept.activated;
        forgotten      := swept.forgotten;
        reclaimed_days := 0;
        deleted_queues := 0;
        forwarded      := swept.forwarded;
        more           := coalesce(remaining <= 0, false);
        if more or expired + dead_lettered + returned + activated + forgotten + forwarded > 0 then
            return next;
        end if;
        exit when more;
    end loop;
    if more or queues <> '{}' then
        return;
    end if;
    orphans := pgqueue._remove_orphans(remaining, dry_run) + pgqueue._forget_workers(dry_run)
               + pgqueue._forget_actions(remaining, dry_run) + pgqueue._forget_batches(remaining, dry_run)
               + pgqueue._forget_on_topics(remaining, dry_run, pgqueue._swept_until(0, thorough));
    if orphans > 0 then
        return query select null::text, 0, 0, 0, 0, orphans, 0, 0, 0, not dry_run;
    end if;
    if pgqueue._reclaim_history(dry_run) then
        return query select null::text, 0, 0, 0, 0, 0, 1, 0, 0, not dry_run;
    end if;
end
$$;
