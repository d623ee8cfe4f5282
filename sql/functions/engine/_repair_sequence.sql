-- The sequence went back: it was set by hand, or the database was restored without it. Messages may have got numbers
-- that the cursors had passed, and numbers that are in use would be handed out again.
--
-- So every cursor begins again, and all open transactions are awaited from there. Only in a later transaction, when that
-- is committed, is the sequence put above every number in use: setting a sequence cannot be rolled back. And far above:
-- others draw numbers from it while it is set, and it must not go back by that. Which of the two is to be done, lanes
-- decide whose horizon lies ahead of the sequence; they stand still meanwhile, others may go on.
-- Returns  whether anything was done; not while another transaction is at it.
create or replace function pgqueue._repair_sequence()
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    all_open    constant xid8 := '18446744073709551615';
    last_number bigint        := pgqueue._last_number();
    highest     bigint;
begin
    if pgqueue._is_repairing() or not pg_try_advisory_xact_lock(hashtextextended('pgqueue._repair_sequence', 0)) then
        return false;                    -- begun in this transaction, or by somebody else
    end if;
    if exists (select from pgqueue.progress where horizon > last_number and (cursor > 0 or horizon_xid <> all_open)) then
        update pgqueue.progress
           set cursor = 0, horizon_xid = all_open, awaited = '{}', awaited_above = '{}'
         where cursor > 0 or horizon_xid <> all_open;
        perform set_config('pgqueue.is_mending', 'yes', true);
    else
        highest := (select max(number)
                      from pgqueue.queue
                     cross join lateral pgqueue._highest_number(queue) as number);
        perform setval('pgqueue.sequence_number', 1000000 + greatest(
            highest, (select max(horizon) from pgqueue.progress), pgqueue._last_number()));
    end if;
    return true;
end
$$;
