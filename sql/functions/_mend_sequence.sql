-- The sequence went back: it was set by hand, or the database was restored without it. Messages may have got numbers
-- that the cursors had passed, and numbers that are in use would be handed out again.
--
-- So every cursor begins again, and all open transactions are awaited from there. Only when that is committed, which
-- the next turn sees, is the sequence put above every number in use: setting a sequence cannot be rolled back.
create or replace function pgqueue._mend_sequence()
returns void
language plpgsql
as $$
declare
    highest bigint;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('pgqueue._mend_sequence', 0)) then
        return;                          -- somebody else is at it
    end if;
    if (select max(horizon) from pgqueue.progress) <= pgqueue._last_number() then
        return;                          -- somebody else has done it
    end if;
    update pgqueue.progress
       set cursor = 0, horizon_xid = '18446744073709551615', awaited = '{}', awaited_above = '{}'
     where cursor > 0;
    if not found then
        highest := (select max(number)
                      from pgqueue.queue
                     cross join lateral pgqueue._highest_number(queue) as number);
        perform setval('pgqueue.sequence_number', greatest(highest, (select max(horizon) from pgqueue.progress)));
    end if;
end
$$;
