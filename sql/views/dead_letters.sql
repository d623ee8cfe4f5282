-- Dead letters, with the reason and the time of dead-lettering: by queue and sequence number. To look at one of them call
-- pgqueue.peek_dead_letters, which finds it by its number.
create or replace view pgqueue.dead_letters with (security_barrier) as
select queue.name as queue,
       sequence_number,
       dead_letter_reason,
       date_trunc('second', dead_lettered_at) as dead_lettered_at,
       delivery_count,
       dead_letter_error_description,
       (select pgqueue._error_line(last_error)
          from pgqueue.failed_message as known
         where known.queue_id = dead_letter.queue_id and known.sequence_number = dead_letter.sequence_number) as last_error,
       pgqueue._priority(lane) as priority,
       date_trunc('second', enqueued_time) as enqueued_time,
       date_trunc('second', locked_until) as locked_until,
       locked_by,
       message_id, correlation_id, subject, content_type, reply_to, session_id,
       (select resubmitted_from
          from pgqueue.failed_message as known
         where known.queue_id = dead_letter.queue_id and known.sequence_number = dead_letter.sequence_number) as resubmitted_from,
       (select forwarded_from ->> 'queue'
          from pgqueue.failed_message as known
         where known.queue_id = dead_letter.queue_id and known.sequence_number = dead_letter.sequence_number) as dead_letter_source,
       application_properties, body, binary_body
  from (select * from pgqueue.queue where pgqueue._may_see_messages(receivers) order by name) as queue
 cross join lateral (
       select *
         from pgqueue.dead_letter
        where dead_letter.queue_id = queue.id
        order by sequence_number
        limit (select null::bigint)) as dead_letter;          -- no limit, but the planner takes the order from the index
