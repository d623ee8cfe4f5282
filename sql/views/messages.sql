-- Messages that can be received, are locked or deferred, or have expired and are not removed yet, in the order of
-- sending. Lower priorities are served first.
create or replace view pgqueue.messages as
select queue.name as queue,
       sequence_number,
       case when locked_until > pgqueue.clock() then 'LOCKED'
            when expires_at <= pgqueue.clock() then 'EXPIRED'
            when lane >= 800 then 'DEFERRED'
            else 'READY' end as state,
       pgqueue._priority(lane) as priority,
       delivery_count,
       enqueued_time,
       expires_at,
       locked_until,
       locked_by,
       message_id, correlation_id, subject, content_type, reply_to, application_properties, body, binary_body
  from pgqueue.message
  join pgqueue.queue on queue.id = queue_id
 order by queue.name, sequence_number;
