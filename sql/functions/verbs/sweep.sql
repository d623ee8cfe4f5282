-- Tidies up all queues, `max_messages` at the most or everything when null: what has expired is dropped or dead-lettered,
-- as its queue says; what was delivered as often as its queue allows, and is not held any more, goes to the dead letters
-- as MaxDeliveryCountExceeded; expired locks that receivers have passed and messages whose time has come are put back
-- within reach; message ids whose window is over are forgotten, and days of history that nobody retains and tables that
-- were staged and abandoned given back. What was sent to a queue while it was dropped is removed. What was broken by hand
-- or by a restore, as far as pgqueue.broken_invariants says that a message is out of reach, is mended.
--
-- Receivers take care of messages by themselves, so nothing depends on it; it keeps a queue tidy that nobody receives
-- from, and gives back space. Commit at once, and call it again while there is `more`. With `dry_run` everything is
-- counted, without a bound, and nothing is done.
--
-- One sweeps at a time in a database; another who comes meanwhile has nothing to do. That spares work, and is not needed.
-- Returns  a row for each queue in which there was something to do, and one with a null queue where a day of history
--          was given back, orphans were removed or the sequence was mended.
-- Raises   PQ007 invalid argument.
-- Locks    the messages; skips those that others hold.
create or replace function pgqueue.sweep(max_messages integer default 1000, dry_run boolean default false)
returns table (
    queue text, expired integer, dead_lettered integer, returned integer, activated integer, forgotten integer,
    reclaimed_days integer, more boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    remaining integer := max_messages;
    source    pgqueue.queue;
    swept     record;
    orphans   integer;
begin
    perform pgqueue._check_bound(max_messages);
    if not dry_run and not pg_try_advisory_xact_lock(hashtextextended('pgqueue.sweep', 0)) then
        return;
    end if;
    if not dry_run then
        perform pgqueue.discard_staged();
        if pgqueue._is_sequence_behind() then                                -- no number may be drawn before it is mended
            if pgqueue._repair_sequence() then
                return query select null::text, 0, 0, 0, 0, 0, 0, true;
            end if;
            return;
        end if;
    end if;
    for source in select * from pgqueue.queue order by random() loop         -- so that none is always the last
        if dry_run then
            select * into swept from pgqueue._preview_sweep(source);
        else
            select * into swept from pgqueue._sweep_queue(source, remaining);
        end if;
        remaining      := remaining - swept.handled;
        queue          := source.name;
        expired        := swept.expired;
        dead_lettered  := swept.dead_lettered;
        returned       := swept.returned;
        activated      := swept.activated;
        forgotten      := swept.forgotten;
        reclaimed_days := 0;
        more           := coalesce(remaining <= 0, false);
        if more or expired + dead_lettered + returned + activated + forgotten > 0 then
            return next;
        end if;
        exit when more;
    end loop;
    if more then
        return;
    end if;
    orphans := pgqueue._remove_orphans(remaining, dry_run);
    if orphans > 0 then
        return query select null::text, 0, 0, 0, 0, orphans, 0, not dry_run;
    end if;
    if pgqueue._reclaim_history(dry_run) then
        return query select null::text, 0, 0, 0, 0, 0, 1, not dry_run;
    end if;
end
$$;
