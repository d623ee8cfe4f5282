-- Finds schedules that were fired while the clock was ahead, more than an hour, and has been set back since: nothing would be
-- due until it comes there again. They go on from now; the due times of cron expressions are to be computed again. After a
-- smaller step nothing is done: what is due until then was sent already. A schedule that begins in the future is not one of
-- them.
-- Locks    the schedules; skips those that others hold.
create or replace function pgqueue._mend_schedules()
returns void
language plpgsql
as $$
declare
    known pgqueue.schedule;
begin
    for known in
        select *
          from pgqueue.schedule
         -- The clock that is read here is no older than any firing that is seen.
         where passed_until > greatest(pgqueue.clock() + interval '1 hour', starts_at)
         order by id                                     -- by its index, where the caller forbids to scan tables
           for update skip locked
    loop
        known.passed_until := greatest(pgqueue.clock(), known.starts_at - interval '1 microsecond');
        if known.cron is not null then
            known.plan_at := pgqueue.clock();
        end if;
        perform pgqueue._save_schedule(known);
    end loop;
end
$$;
