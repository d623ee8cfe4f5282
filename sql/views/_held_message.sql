-- Messages that may be held, or may have been, by queue. Fresh messages are looked for where receives take them, not
-- in the whole queue: one is missing while it lies behind a hundred others that are not held. Of each session and group its
-- first hundred messages are looked at; those of a session, and its deferred ones, are held as long as it is. The right to see all
-- locks is checked once, not for each queue.
create or replace view pgqueue._held_message with (security_barrier) as
select queue.name as queue, sequence_number, locked_by,
       case when not requires_session then locked_until
            else (select held.locked_until
                    from pgqueue.session as held
                   where held.queue_id = message.queue_id and held.session_id = message.session_id
                     and held.lock_token = message.lock_token) end as locked_until,
       lock_token is not null as has_lock,
       delivery_count, max_delivery_count, pgqueue._priority(lane) as priority,
       date_trunc('second', enqueued_time) as enqueued_time, message_id, correlation_id, subject
  from (select *
          from pgqueue.queue
         where (select pgqueue._may_see_locks('{}')) or pgqueue._may_see_locks(receivers)
         order by name) as queue
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
        union all
       select following.*                                     -- messages delivered before, beyond the cursor
         from pgqueue.progress
        cross join lateral (
              select *
                from pgqueue.message
               where queue_id = queue.id and lane = progress.lane
                 and position > least(cursor, (select min(above) from unnest(awaited_above) as above))
               order by position
               limit (select null::bigint)) as following      -- no limit, but the planner takes the order from the index
        where progress.queue_id = queue.id and progress.lane % 2 = 0
        union all
       select first.*                                         -- messages held in sessions
         from pgqueue.session as held
        cross join lateral (
              select *
                from pgqueue.message
               where queue_id = queue.id and lane = 2000 and session_id = held.session_id and position > held.cursor
               order by position
               limit (select 100)) as first                   -- hidden from the planner, as below
        where held.queue_id = queue.id and queue.requires_session
        union all
       select first.*                                         -- messages of groups; those without a token rest after a delivery
         from (select distinct session_id from pgqueue.waiting_session as ring where ring.queue_id = queue.id and queue.fair) as known
        cross join lateral (
              select *
                from pgqueue.message
               where queue_id = queue.id and lane = 2000 and session_id = known.session_id
               order by position
               limit (select 100)) as first
        where lock_token is not null
        union all
       select passed.*                                        -- messages that the cursor has passed
         from unnest(queue.lanes) as opened                   -- see pgqueue._progress, which a view cannot call
        cross join lateral (
              select * from pgqueue.progress where queue_id = queue.id and lane = opened order by turn desc limit 1) as progress
         join pgqueue.watch using (queue_id, lane)
        cross join lateral (
              select *
                from pgqueue.message
               where queue_id = queue.id and lane = watch.lane and position = watch.position
               limit 1) as passed
        where watch.queue_id = queue.id
          and watch.position <= case when watch.lane % 2 <> 0 then cursor
                                     else least(cursor, (select min(above) from unnest(awaited_above) as above)) end
        union all
       select following.*                                     -- messages that follow the cursor
         from unnest(queue.lanes) as opened
        cross join lateral (
              select newest, cursor
                from pgqueue.progress as newest
               where queue_id = queue.id and lane = opened
               order by turn desc
               limit 1) as known (progress, cursor)
        cross join lateral (
              select *
                from pgqueue.message
               where queue_id = queue.id and lane = opened and position > cursor
                 and position <= pgqueue._last_held(progress)
               order by position
               limit (select null::bigint)) as following
        where opened % 2 <> 0
          and exists (
              select
                from (select lock_token
                        from pgqueue.message
                       where queue_id = queue.id and lane = opened and position > cursor
                       order by position
                       limit (select 100)) as next            -- of a number it knows, it may sort all rows
               where lock_token is not null)) as message;
