-- Repairs the sequence after it went back, because it was set by hand or the database was restored without it. Messages
-- may have got numbers that the cursors had passed, and numbers in use would be handed out again.
--
-- First every cursor and front is set to the beginning, and from there all open transactions are awaited. Only a later
-- transaction, after that one has committed, sets the sequence above every number in use, because setting a sequence
-- cannot be rolled back. It is set far above, because other sessions draw numbers meanwhile, and it must not go back
-- again. Lanes whose horizon is ahead of the sequence decide which of the two steps is next; these lanes stand still
-- meanwhile, others may go on.
-- Returns  whether anything was done; false while another transaction does the repair.
create or replace function pgqueue._repair_sequence()
returns boolean
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
    all_open    constant xid8 := '18446744073709551615';
    last_number bigint        := pgqueue._last_number_drawn();
    highest     bigint;
begin
    if pgqueue._is_repairing() or not pgqueue._only_one('pgqueue.repair_lock') then
        return false;                    -- begun in this transaction, or by another session
    end if;
    if exists (select from pgqueue.progress where horizon > last_number and (cursor > 0 or horizon_xid <> all_open))
       or exists (select from pgqueue.front where horizon > last_number and horizon_xid <> all_open)
       or exists (select from pgqueue.session where horizon > last_number)
       or exists (select from pgqueue.waiting_session where horizon > last_number) then
        update pgqueue.progress
           set cursor = 0, horizon_xid = all_open, awaited = '{}', awaited_above = '{}'
         where cursor > 0 or horizon_xid <> all_open;
        update pgqueue.front
           set reached = 0, first_number = 0, awaited = '{}', awaited_above = '{}', horizon_xid = all_open
         where horizon > 0;
        update pgqueue.session set horizon = 0, cursor = 0 where horizon > 0;
        update pgqueue.waiting_session set horizon = 0, cursor = 0, awaited = null, awaited_above = null where horizon > 0;
        perform set_config('pgqueue.repairing', 'yes', true);
    else
        highest := (select max(number)
                      from pgqueue.queue
                     cross join lateral pgqueue._highest_number_in_use(queue, last_number) as number);
        perform setval('pgqueue.sequence_number', 1000000 + greatest(
            highest, (select max(horizon) from pgqueue.progress), (select max(horizon) from pgqueue.front), pgqueue._last_number_drawn()));
    end if;
    return true;
end
$$;
