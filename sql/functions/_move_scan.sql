-- Moves this session's cursors past what it has just taken, as far as is certain; see pgqueue._load_scan.
-- The scan ended in the `last` lane at `reached`; it found nothing more in the lanes before.
--
-- A cursor may pass a number only when nothing can appear at or below it any more. Every sender takes its transaction
-- id before it draws a number; so once all transactions older than the horizon's are over, whatever will ever exist up
-- to the horizon's number is visible: that number is settled. Then the next horizon is taken. A transaction that is
-- open for more than a second is not waited for; what it brings, pgqueue._advance finds.
create or replace function pgqueue._move_scan(queue_id integer, scan bigint[], last integer, reached bigint)
returns text
language plpgsql
as $$
declare
    last_number bigint   := (select last_value from pgqueue.sequence_number);
    name        text     := 'pgqueue.horizon_' || queue_id;
    horizon     bigint[] := coalesce(nullif(current_setting(name, true), ''), '{0,0,0}');
    settled     bigint   := horizon[1];
    is_over     boolean  := pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= horizon[3];
begin
    if not is_over then
        is_over := not exists (
            select open from pg_snapshot_xip(pg_current_snapshot()) as open where open < horizon[3]::text::xid8
            except
            select unnest(awaited) from pgqueue.progress where progress.queue_id = _move_scan.queue_id);
    end if;
    if is_over then
        settled := horizon[2];
        if current_setting('transaction_isolation') = 'read committed' then      -- else the snapshot is the older
            perform set_config(name, array[settled, last_number, pgqueue._next_xid()::text::bigint]::text, false);
        end if;
    end if;
    for nth in 2 .. last loop
        scan[nth] := greatest(scan[nth], settled);
    end loop;
    scan[last + 1] := greatest(scan[last + 1], least(reached, settled));
    return set_config('pgqueue.scan_' || queue_id, scan::text, false);
end
$$;
