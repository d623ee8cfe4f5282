-- Shows the next due times of a schedule, as if it were not paused. Of a schedule with a cron expression only those are
-- known that a client has computed ahead.
-- Returns  up to `max_due_times`, in their order.
-- Raises   PQ007 invalid argument, PQ030 unknown schedule.
create or replace function pgqueue.due_times(schedule text, max_due_times integer default 10)
returns setof timestamptz
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    known pgqueue.schedule;
begin
    select * into known from pgqueue.schedule where name = due_times.schedule;
    if not found then
        perform pgqueue._find_schedule(due_times.schedule);
    end if;
    perform pgqueue._find_queue((select name from pgqueue.queue where id = known.queue_id), 'SETTINGS');
    if max_due_times is null or max_due_times < 0 then
        perform pgqueue._refuse_argument('max_due_times', 'a whole number from 0 on', max_due_times::text);
    end if;
    return query
        select due
          from (select due
                  from unnest(known.next_due || known.later) as due
                 where known.cron is not null
                 union all
                select known.next_due + nth * known.every
                  from generate_series(0, max_due_times - 1) as nth
                 where known.every is not null) as ahead
         where due <= known.ends_at or known.ends_at is null
         order by due
         limit max_due_times;
end
$$;
