-- Records why a schedule could not be fired, and fires it again ten seconds later.
-- Returns  whether that was recorded; false when another session has fired it meanwhile, or the table refuses it.
-- Locks    the schedule; waits a tenth of a second for others.
create or replace function pgqueue._keep_firing_error(due pgqueue.schedule, moment timestamptz, code text, error text)
returns boolean
language plpgsql
set lock_timeout = '100ms'
as $$
begin
    update pgqueue.schedule
       set fire_at    = moment + interval '10 seconds',
           last_error = case when code = '55P03' then 'an open transaction sends a message with the same id, or changes the queue'
                             else left(error, 1000) end
     where id = due.id and fire_at = due.fire_at;
    return found;
exception when others then
    raise warning 'the error of schedule % could not be recorded: %', due.name, sqlerrm using detail = error;
    return false;
end
$$;
