-- Moves scheduled messages whose time has come into the redelivery lanes, 1000 at the most, the earliest first.
-- Returns  how many.
create or replace function pgqueue._activate_scheduled(queue_id integer)
returns integer
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    moment    timestamptz := pgqueue.clock();
    due       pgqueue.scheduled_message;
    activated integer := 0;
begin
    perform pg_current_xact_id();        -- a transaction id before a number, as in pgqueue.send
    for due in
        delete from pgqueue.scheduled_message
         where ctid = any (array(
                   select ctid
                     from pgqueue.scheduled_message
                    where queue_id = _activate_scheduled.queue_id and scheduled_enqueue_time <= moment
                    order by scheduled_enqueue_time
                    limit 1000
                      for update skip locked))
        returning *
    loop
        due.position := nextval('pgqueue.sequence_number');
        insert into pgqueue.message select (due::pgqueue.message).*;
        activated := activated + 1;
    end loop;
    return activated;
end
$$;
