-- Moves scheduled messages whose time has come into the redelivery lanes or to their sessions, at most `max_messages`, the earliest
-- first; see pgqueue._pass_due_times for `due_from`.
-- Returns  how many were moved.
create or replace function pgqueue._activate_scheduled(queue_id integer, due_from timestamptz, max_messages integer default 1000)
returns integer
language plpgsql
as $$
#variable_conflict use_column
declare
    moment    timestamptz := pgqueue.clock();
    activated record;
begin
    select * into activated
      from pgqueue._unschedule(array(
           select ctid
             from pgqueue.scheduled_message
            where queue_id = _activate_scheduled.queue_id and scheduled_enqueue_time between _activate_scheduled.due_from and moment
            order by scheduled_enqueue_time
            limit max_messages
              for update skip locked));
    if activated.sessions is not null then
        perform pgqueue._announce_sessions(_activate_scheduled.queue_id, activated.sessions);
    end if;
    return cardinality(activated.moved);
end
$$;
