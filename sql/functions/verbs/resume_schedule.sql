-- Resumes a schedule that was paused. Due times that passed meanwhile are skipped, whatever its `catch_up`.
-- Raises  PQ030 unknown schedule.
-- Locks   the schedule.
create or replace function pgqueue.resume_schedule(schedule text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    known pgqueue.schedule;
begin
    perform pgqueue._check_admin();
    known := pgqueue._find_schedule(schedule);
    if known.is_paused then
        known.is_paused    := false;
        known.passed_until := greatest(known.passed_until, pgqueue.clock());
        perform pgqueue._save_schedule(known, known.next_due || known.later);
    end if;
end
$$;
