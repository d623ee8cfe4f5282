-- Stores the due times of a cron expression that a client has computed: those that have passed since the schedule's
-- `passed_until`, and those ahead. With them SQL alone fires the schedule. More are wanted when half of them have
-- passed, and after a day; never when `is_complete`, because the schedule ends. An `error` is the reason why a client could not
-- compute them; another one tries a minute later.
-- Raises  PQ007 invalid argument, 42501 unless the caller may receive from the schedule's queue.
-- Locks   the schedule; does nothing when it is gone, or a transaction is firing it.
create or replace function pgqueue.plan_schedule(
    id          integer,
    due_times   timestamptz[],
    is_complete boolean default false,
    error       text    default null
)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
declare
    moment timestamptz := pgqueue.clock();
    known  pgqueue.schedule;
    ahead  timestamptz[];
begin
    select * into known
      from pgqueue.schedule
     where schedule.id = plan_schedule.id and cron is not null
       for update skip locked;
    if not found then
        return;
    end if;
    perform pgqueue._find_queue((select name from pgqueue.queue where queue.id = known.queue_id), 'RECEIVE');
    if error is not null then
        update pgqueue.schedule
           set plan_at = moment + interval '1 minute', last_error = error
         where schedule.id = known.id;
        return;
    elsif due_times is null
          or cardinality(due_times) > (select count(distinct date_trunc('second', due)) from unnest(due_times) as due) then
        perform pgqueue._refuse_argument('due_times', 'times at least a second apart', due_times::text);
    end if;
    ahead := array(select due from unnest(due_times) as due where due > moment order by due);
    if not is_complete and ahead = '{}' and moment < any (known.next_due || known.later) then
        return;                          -- computed long ago: those that another one has stored since are kept
    end if;
    known.plan_at    := case when not is_complete
                             then least(moment + interval '1 day', coalesce(ahead[(cardinality(ahead) + 1) / 2], moment)) end;
    known.last_error := null;
    perform pgqueue._save_schedule(known, due_times);
end
$$;
