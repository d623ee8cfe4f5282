-- Fires the schedules that are due, of all queues, until `max_messages` were sent; skips those that others are firing. An
-- error of one, whatever it is, concerns that one only: it is recorded, and the schedule is fired again ten seconds later.
-- The caller receives from another queue, and must not fail. Sequence errors are raised: the caller repairs it.
--
-- The row of a schedule is locked and updated in the same subtransaction: otherwise each firing would take a multixact.
-- Returns  how many messages were sent.
-- Locks    the rows of these schedules, until the transaction ends: so each due time is dealt with once.
create or replace function pgqueue._fire_schedules(max_messages integer default 1000)
returns integer
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_sort = off
as $$
declare
    moment timestamptz := pgqueue.clock();
    due    pgqueue.schedule;
    sent   integer := 0;
begin
    loop
        begin
            select * into due
              from pgqueue.schedule
             where fire_at <= moment
             order by fire_at
             limit 1
               for update skip locked;
            exit when not found;
            sent := sent + pgqueue._fire_schedule(due, moment);
        exception when others then
            if sqlstate = '23505' and pgqueue._is_sequence_behind() then
                raise;
            end if;
            exit when not pgqueue._keep_firing_error(due, moment, sqlstate, sqlerrm);
        end;
        exit when sent >= max_messages;
    end loop;
    return sent;
end
$$;
