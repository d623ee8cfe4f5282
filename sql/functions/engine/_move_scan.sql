-- Moves this session's cursors past the messages that it has just locked, as far as that is safe; see
-- pgqueue._load_scan. The scan ended in the `last` lane at `reached`; it found nothing more in the lanes before.
--
-- A cursor may pass a number only when nothing can appear at or below it any more. Every sender takes its transaction
-- id before it draws a number. So the holder of a number that was handed out before this transaction got its own id has
-- a smaller id. Once all smaller ids are over, everything that will ever exist up to that number is visible: the number
-- is settled. Transactions that pgqueue._advance_cursors awaits are not waited for here. The cursors use what an
-- earlier receive has proved, because this receive's scan has not seen what was committed since it ran.
--
-- For this the session remembers five values: the settled number; the next number to be settled, with the transaction
-- id that bounds its senders; and the last number that was handed out, with the id of the transaction that read it.
create or replace function pgqueue._move_scan(queue_id integer, scan bigint[], last integer, reached bigint)
returns text
language plpgsql
as $$
declare
    name    text := concat('pgqueue.horizon_', queue_id);
    known   bigint[] := coalesce(nullif(current_setting(name, true), ''), '{0,0,0,0,0}');
    xid     bigint   := pg_current_xact_id()::text;
    settled bigint   := known[1];
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        -- pgqueue._advance_cursors does nothing then, and could not bring back what a cursor has passed
        return null;
    end if;
    if xid <> known[5] then
        if pgqueue._is_transaction_over(queue_id, known[3]::text::xid8) then
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
