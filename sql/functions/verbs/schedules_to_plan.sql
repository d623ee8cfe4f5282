-- Lists schedules whose due times a client is to compute now, because few are left, or they were computed a day ago: the
-- rules of time zones change. Only those are listed whose queue the caller may receive from. Call pgqueue.plan_schedule for each.
-- Schedules whose due times lie too far ahead, because the clock was set back, go on from now.
-- Returns  one row per schedule, at most 100, with the time now.
create or replace function pgqueue.schedules_to_plan()
returns table (
    id integer, cron text, timezone text, catch_up text, passed_until timestamptz, ends_at timestamptz, now timestamptz)
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    perform pgqueue._mend_schedules();
    return query
        select schedule.id, cron, timezone, catch_up, passed_until, ends_at, moment
          from pgqueue.schedule
          join pgqueue.queue on queue.id = queue_id
         where plan_at <= moment and not is_paused and pgqueue._may_receive(receivers)
         order by plan_at
         limit 100;
end
$$;
