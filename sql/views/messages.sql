-- Messages that can be received, are locked or deferred, or have expired and are not removed yet: by queue, and within a
-- queue in the order of delivery, the deferred ones last. Lower priorities are served first. To look at one message call
-- pgqueue.peek, which finds it by its number.
create or replace view pgqueue.messages with (security_barrier) as
select queue.name as queue,
       sequence_number,
       case when requires_session and exists (
                select
                  from pgqueue.session as held
                 where held.queue_id = message.queue_id and held.session_id = message.session_id
                   and held.lock_token = message.lock_token and held.locked_until > pgqueue.clock()) then 'LOCKED'
            when locked_until > pgqueue.clock() and (not requires_session or lock_token is null) then 'LOCKED'
            when expires_at <= pgqueue.clock() then 'EXPIRED'
            when delivery_count >= max_delivery_count then 'EXHAUSTED'
            when pgqueue._is_deferred(lane) then 'DEFERRED'
            else 'READY' end as state,
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
       -- generated query: _messages_of(queue.id)
        select found.*
          from (select * from pgqueue.progress where progress.queue_id = queue.id order by lane) as progress
         cross join lateral (
             (select watched.*
                from pgqueue.watch
               cross join lateral (
                     select *
                       from pgqueue.message
                      where message.queue_id = watch.queue_id and message.lane = watch.lane and message.position = watch.position
                      limit 1) as watched
               where watch.queue_id = (progress).queue_id and watch.lane = (progress).lane and watch.position >= 0
                 and watch.position <= least((progress).cursor, (select min(above) from unnest((progress).awaited_above) as above))
               order by watch.position
               limit (select null::bigint))
               union all
             (select *
                from pgqueue.message
               where message.queue_id = (progress).queue_id and message.lane = (progress).lane and message.position >= 0
                 and message.position > least((progress).cursor, (select min(above) from unnest((progress).awaited_above) as above))
               order by message.position
               limit (select null::bigint))
             ) as found
         union all
        select deferred.*
          from (
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
              ) as deferred
         union all
       (select *
          from pgqueue.message
         where message.queue_id = queue.id and message.lane = 2000
         order by message.position
         limit (select null::bigint))
       -- end
       ) as message
  left join lateral (
       select last_error, resubmitted_from, forwarded_from
         from pgqueue.failed_message
        where failed_message.queue_id = message.queue_id and failed_message.sequence_number = message.sequence_number
        limit 1) as known on true;
