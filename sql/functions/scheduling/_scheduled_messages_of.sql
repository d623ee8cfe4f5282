-- Returns the scheduled messages of a queue, in the order in which they are due; see pgqueue._pass_due_times. A plain query, so that
-- it is inlined.
create or replace function pgqueue._scheduled_messages_of(queue_id integer)
returns setof pgqueue.scheduled_message
language sql stable
begin atomic
    select *
      from pgqueue.scheduled_message
     where scheduled_message.queue_id = _scheduled_messages_of.queue_id
       and scheduled_enqueue_time >= coalesce(
           (select due_from
              from pgqueue.scheduled_progress
             where scheduled_progress.queue_id = _scheduled_messages_of.queue_id and kind = 'MESSAGE'
             order by turn desc
             limit 1),
           '-infinity')
     order by scheduled_enqueue_time
     limit (select null::bigint);                             -- no limit, but the planner takes the order from the index
end;
