-- Pending notifications, by queue: the type of each, the state that its recipients have stored, when it is sent next and
-- when it times out, as far as its body has them. Notifications that were given up are among the dead letters. A queue is
-- read if there is a notification among its first five messages, or its first five scheduled ones.
create or replace view pgqueue.notifications with (security_barrier) as
select queue.name as queue,
       sequence_number,
       body ->> 'notification' as notification,
       body -> 'attempts' as attempts,
       body -> 'complete' as complete,
       date_trunc('second', scheduled_enqueue_time) as next_ready_at,
       body -> 'state' as state,
       date_trunc('second', enqueued_time) as created_at,
       date_trunc('second', case
           when body ->> 'expires_at' ~ '^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d' then (body ->> 'expires_at')::timestamptz
           when jsonb_typeof(body -> 'time_to_live') = 'number'
           then enqueued_time + (body ->> 'time_to_live')::double precision * interval '1 second' end) as expires_at,
       date_trunc('second', locked_until) as locked_until,
       locked_by,
       body -> 'version' as version,
       body -> 'data' as data
  from (select * from pgqueue.queue where pgqueue._may_see_messages(receivers) order by name) as queue
 cross join lateral (
      (select sequence_number, enqueued_time, body, content_type, locked_by, locked_until,
              null::timestamptz as scheduled_enqueue_time
         from pgqueue.message
        where message.queue_id = queue.id and 'application/vnd.pgqueue.notification+json' = any (array(
              select content_type from pgqueue.message where queue_id = queue.id order by lane, position limit 5))
        order by lane, position
        limit (select null::bigint))                          -- no limit, but the planner takes the order from the index
        union all
      (select sequence_number, enqueued_time, body, content_type, null, null, scheduled_enqueue_time
         from pgqueue.scheduled_message
        where scheduled_message.queue_id = queue.id and 'application/vnd.pgqueue.notification+json' = any (array(
              select content_type from pgqueue.scheduled_message where queue_id = queue.id order by scheduled_enqueue_time limit 5))
        order by scheduled_enqueue_time
        limit (select null::bigint))) as message
 where content_type = 'application/vnd.pgqueue.notification+json';
