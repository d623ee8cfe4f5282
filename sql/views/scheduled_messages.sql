-- Scheduled messages, by queue. Within a queue the message that is due first comes first.
create or replace view pgqueue.scheduled_messages with (security_barrier) as
select queue.name as queue,
       sequence_number,
       date_trunc('second', scheduled_enqueue_time) as scheduled_enqueue_time,
       pgqueue._priority(lane) as priority,
       delivery_count,
       date_trunc('second', enqueued_time) as enqueued_time,
       date_trunc('second', expires_at) as expires_at,
       (select pgqueue._error_line(last_error)
          from pgqueue.failed_message as known
         where known.queue_id = message.queue_id and known.sequence_number = message.sequence_number) as last_error,
       -- generated: {message_id to reply_to}, {from session_id if is_kept},
       message_id, correlation_id, subject, content_type, reply_to, session_id, reply_to_session_id, "to",
       partition_key,
       -- end
       (select resubmitted_from
          from pgqueue.failed_message as known
         where known.queue_id = message.queue_id and known.sequence_number = message.sequence_number) as resubmitted_from,
       (select forwarded_from ->> 'queue'
          from pgqueue.failed_message as known
         where known.queue_id = message.queue_id and known.sequence_number = message.sequence_number) as dead_letter_source,
       -- generated: application_properties, body, binary_body
       application_properties, body, binary_body
       -- end
  from (select * from pgqueue.queue where pgqueue._may_see_messages(receivers) order by name) as queue
 cross join lateral (
       -- generated query: _scheduled_messages_of(queue.id)
       select *
         from pgqueue.scheduled_message
        where scheduled_message.queue_id = queue.id
          and scheduled_enqueue_time >= coalesce(
              (select due_from
                 from pgqueue.scheduled_progress
                where scheduled_progress.queue_id = queue.id and kind = 'MESSAGE'
                order by turn desc
                limit 1),
              '-infinity')
        order by scheduled_enqueue_time
        limit (select null::bigint)
       -- end
       ) as message;
