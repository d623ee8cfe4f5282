-- Dead letters, with the reason and the time of dead-lettering: by queue and sequence number. To look at one of them call
-- pgqueue.peek_dead_letters, which finds it by its number.
create or replace view pgqueue.dead_letters with (security_barrier) as
select queue.name as queue,
       sequence_number,
       dead_letter_reason,
       date_trunc('second', dead_lettered_at) as dead_lettered_at,
       delivery_count,
       dead_letter_error_description,
       pgqueue._error_line(last_error) as last_error,
       pgqueue._priority(lane) as priority,
       date_trunc('second', enqueued_time) as enqueued_time,
       date_trunc('second', locked_until) as locked_until,
       locked_by,
       -- generated: {message_id to reply_to}, {from session_id if is_kept},
       message_id, correlation_id, subject, content_type, reply_to, session_id, reply_to_session_id, "to",
       partition_key,
       -- end
       resubmitted_from,
       forwarded_from ->> 'queue' as dead_letter_source,
       -- generated: application_properties, body, binary_body
       application_properties, body, binary_body
       -- end
  from (select * from pgqueue.queue where pgqueue._may_see_messages(receivers) order by name) as queue
 cross join lateral (
       -- generated query: _dead_letters_from(queue.id, 0)
       with front as materialized (
           select front.*
             from (
                 select least(newest.reached,
                              (select min(above)
                                 from unnest(awaited, awaited_above) as late (xid, above)
                                where pg_visible_in_snapshot(xid, pg_current_snapshot()))) as reached,
                        newest.first_number
                   from (select *
                           from pgqueue.front
                          where front.queue_id = queue.id and front.kind = 'DEAD_LETTERED'
                          order by turn desc
                          limit 1) as newest
                 ) as front
       ), arrived as materialized (
           select late.*
             from front
            cross join lateral (
                  select *
                    from pgqueue.dead_letter
                   where dead_letter.queue_id::bigint = queue.id and dead_letter.position > front.reached
                     and 0 < front.first_number
                   order by dead_letter.position
                   limit (select 1000)) as late
       ), known as materialized (
           select first_number from front where (select count(*) from arrived) < 1000
       )
       (select *
          from arrived
         where sequence_number >= 0 and sequence_number < (select first_number from known)
         order by sequence_number, position)
        union all
       (select *
          from pgqueue.dead_letter
         where dead_letter.queue_id = queue.id
           and sequence_number >= 0 and sequence_number >= coalesce((select first_number from known), 0)
         order by sequence_number, position
         limit (select null::bigint))
       -- end
       ) as dead_letter
  left join lateral (
       select last_error, resubmitted_from, forwarded_from
         from pgqueue.failed_message
        where failed_message.queue_id = dead_letter.queue_id and failed_message.sequence_number = dead_letter.sequence_number
        limit 1) as known on true;
