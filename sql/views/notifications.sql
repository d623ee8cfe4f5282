-- Pending notifications: the type of each, the state that its recipients have stored, when it is sent next and when it
-- times out, as far as its body says so. Notifications that were given up are among the dead letters.
create or replace view pgqueue.notifications as
select queue.name as queue,
       sequence_number,
       body ->> 'notification' as notification,
       body -> 'version' as version,
       body -> 'attempts' as attempts,
       body -> 'state' as state,
       body -> 'complete' as complete,
       enqueued_time as created_at,
       scheduled_enqueue_time as next_ready_at,
       case when body ->> 'expires_at' ~ '^\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d' then (body ->> 'expires_at')::timestamptz
            when jsonb_typeof(body -> 'time_to_live') = 'number'
            then enqueued_time + (body ->> 'time_to_live')::double precision * interval '1 second' end as expires_at,
       locked_by,
       locked_until,
       body -> 'data' as data
  from (select queue_id, sequence_number, enqueued_time, body, content_type, locked_by, locked_until,
               null::timestamptz as scheduled_enqueue_time
          from pgqueue.message
         union all
        select queue_id, sequence_number, enqueued_time, body, content_type, null, null, scheduled_enqueue_time
          from pgqueue.scheduled_message) as message
  join pgqueue.queue on queue.id = queue_id
 where content_type = 'application/vnd.pgqueue.notification+json'
 order by queue.name, sequence_number;
