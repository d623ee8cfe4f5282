-- The sequence went back: it was set by hand, or the database was restored without it. Messages may have got numbers
-- that the cursors had passed, and numbers that are in use would be handed out again.
--
-- So every cursor begins again, and all open transactions are awaited from there. Only in a later transaction, when that
-- is committed, is the sequence put above every number in use: setting a sequence cannot be rolled back.
create or replace function pgqueue._mend_sequence()
returns void
language plpgsql
as $$
declare
    highest bigint;
begin
    if pgqueue._is_mending() or not pg_try_advisory_xact_lock(hashtextextended('pgqueue._mend_sequence', 0)) then
        return;                          -- begun in this transaction, or by somebody else
    end if;
    update pgqueue.progress
       set cursor = 0, horizon_xid = '18446744073709551615', awaited = '{}', awaited_above = '{}'
     where cursor > 0;
    if found then
        perform set_config('pgqueue.is_mending', 'yes', true);
    else
        highest := (select max(number)
                      from pgqueue.queue
                     cross join lateral pgqueue._highest_number(queue) as number);
        perform setval('pgqueue.sequence_number', greatest(highest, (select max(horizon) from pgqueue.progress)));
    end if;
end
$$;
