-- Moves this session's cursors past the messages that it has just locked, as far as that is safe; see
-- pgqueue._load_scan. The scan ended in the `last` lane at `reached`; it found nothing more in the lanes before.
--
-- A number is settled once all transactions with ids below that of the one which read it are over, but for those that
-- pgqueue._advance_cursors awaits: see docs/engine.md. The cursors use what an earlier receive has proved, because this
-- receive's scan has not seen what was committed since it ran. For this a setting, pgqueue.horizon_<queue id>, has the
-- settled number; the next number to be settled, with the transaction id that bounds its senders; and the last number
-- that was handed out, with the id of the transaction that read it.
create or replace function pgqueue._move_scan(queue_id integer, scan bigint[], last integer, reached bigint)
returns text
language plpgsql
as $$
declare
    name    text := concat('pgqueue.horizon_', queue_id);
    known   bigint[] := coalesce(nullif(current_setting(name, true), ''), '{0,0,0,0,0}');
    xid     bigint   := pg_current_xact_id()::text;
    settled bigint   := known[1];
    is_over boolean;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        -- pgqueue._advance_cursors does nothing then, and could not bring back what a cursor has passed
        return null;
    end if;
    if xid <> known[5] then
        is_over := pg_snapshot_xmin(pg_current_snapshot()) >= known[3]::text::xid8;      -- usually, and cheap: an expression
        if not is_over then
            is_over := not exists (
                select open from pg_snapshot_xip(pg_current_snapshot()) as open where open < known[3]::text::xid8
                except
                select unnest(awaited)
                  from pgqueue.queue
                 cross join lateral pgqueue._progress(queue.id, queue.lanes)
                 where queue.id = _move_scan.queue_id);
        end if;
        if is_over then
            known := array[known[2], known[4], xid];
        end if;
        known[4:5] := array[(select last_value from pgqueue.sequence_number), xid];
        perform set_config(name, known::text, false);
    end if;
    for nth in 2 .. last loop
        scan[nth] := greatest(scan[nth], settled);
    end loop;
    scan[last + 1] := greatest(scan[last + 1], least(reached, settled));
    return set_config(concat('pgqueue.scan_', queue_id), scan::text, false);
end
$$;
