-- Stores a schedule whose row the caller has locked: the state that it was given, and of `due_times` those that are not
-- dealt with. The due times of an interval are computed here. Wakes the consumers of the queue when the next one comes
-- before they poll.
create or replace function pgqueue._save_schedule(known pgqueue.schedule, due_times timestamptz[] default '{}')
returns void
language plpgsql
as $$
declare
    ahead  timestamptz[];
    target pgqueue.queue;
begin
    if known.every is not null then
        due_times := array[pgqueue._interval_after(known, known.passed_until)];
    end if;
    ahead := array(select due from unnest(due_times) as due where due > known.passed_until order by due);
    update pgqueue.schedule
       set is_paused    = known.is_paused,
           passed_until = known.passed_until,
           next_due     = ahead[1],
           later        = ahead[2:],
           plan_at      = known.plan_at,
           fire_at      = case when not known.is_paused then ahead[1] end,
           last_due     = known.last_due,
           last_error   = known.last_error
     where id = known.id;
    if not known.is_paused and ahead[1] < pgqueue.clock() + interval '5 seconds' then
        select * into target from pgqueue.queue where id = known.queue_id;
        perform pgqueue._notify_early(target, ahead[1] - pgqueue.clock());
    end if;
end
$$;
