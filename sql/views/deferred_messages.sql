-- Deferred messages, which are received by their sequence numbers only: by queue, and within a queue by priority, those
-- deferred first before the others. The state of one is LOCKED while its lock is held.
create or replace view pgqueue.deferred_messages with (security_barrier) as
select queue.name as queue,
       sequence_number,
       case when requires_session and exists (
                select
                  from pgqueue.session as held
                 where held.queue_id = message.queue_id and held.session_id = message.session_id
                   and held.lock_token = message.lock_token and held.locked_until > pgqueue.clock()) then 'LOCKED'
            when locked_until > pgqueue.clock() and not requires_session then 'LOCKED'
            when delivery_count >= max_delivery_count then 'EXHAUSTED'
            else 'DEFERRED' end as state,
       pgqueue._priority(lane) as priority,
       delivery_count,
       date_trunc('second', enqueued_time) as enqueued_time,
       date_trunc('second', locked_until) as locked_until,
       locked_by,
       date_trunc('second', expires_at) as expires_at,
       pgqueue._error_line(last_error) as last_error,
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
       -- generated query: _deferred_messages(queue.id)
       select deferred.*
         from (select coalesce(max(known.reached), 0) as reached
                 from (
                     select least(newest.reached,
                                  (select min(above)
                                     from unnest(awaited, awaited_above) as late (xid, above)
                                    where pg_visible_in_snapshot(xid, pg_current_snapshot()))) as reached,
                            newest.first_number
                       from (select *
                               from pgqueue.front
                              where front.queue_id = queue.id and front.kind = 'DEFERRED'
                              order by turn desc
                              limit 1) as newest
                     ) as known) as front
        cross join lateral (
              select unnest(lanes) as lane from pgqueue.queue as known where known.id = queue.id) as opened
        cross join lateral (
              select *
                from pgqueue.message
               where message.queue_id = queue.id and message.lane = opened.lane + 999
                 and message.position > front.reached
               order by message.position
               limit (select null::bigint)) as deferred
        where opened.lane % 2 <> 0
       -- end
       ) as message
  left join lateral (
       select last_error, resubmitted_from, forwarded_from
         from pgqueue.failed_message
        where failed_message.queue_id = message.queue_id and failed_message.sequence_number = message.sequence_number
        limit 1) as known on true;
