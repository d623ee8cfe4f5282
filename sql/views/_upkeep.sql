-- The facts that pgqueue doctor checks of each queue: since when a message waits, when a receiver last took a turn while one did, and
-- what is due. It reads some rows of each queue, by its indexes; columns that are not selected are not read. No clock is asked, so a
-- due time may lie in the future.
create or replace view pgqueue._upkeep with (security_barrier) as
select name as queue, status, updated_at, paused_at,
       (select waits_until from pgqueue.waiting_consumer where queue_id = queue.id order by waits_until desc limit 1) as awaited_until,
       retain_history,
       (select target.name from pgqueue.queue as target where target.id = queue.forward_to) as forward_to,
       (select nullif(max(horizon_taken_at), '-infinity')            -- see pgqueue._progress, which a view cannot call
          from unnest(queue.lanes) as opened
         cross join lateral (
               select * from pgqueue.progress where queue_id = queue.id and lane = opened order by turn desc limit 1) as progress) as last_turn,
       least((select available_at                        -- of sessions that have a message: others are left by dead consumers
                from pgqueue.waiting_session
               where queue_id = queue.id
                 and (select true
                        from pgqueue.message
                       where message.queue_id = waiting_session.queue_id and lane = 2000
                         and message.session_id between waiting_session.session_id and waiting_session.session_id
                       order by message.session_id, position               -- see pgqueue._next_in_sessions
                       limit 1)
               order by available_at
               limit 1),
             (select min(first.enqueued_time)         -- the first message beyond the cursor, or where transactions are awaited
                from unnest(queue.lanes) as opened
               cross join lateral (
                     select * from pgqueue.progress where queue_id = queue.id and lane = opened order by turn desc limit 1) as progress
               cross join lateral (
                     select enqueued_time
                       from pgqueue.message
                      where queue_id = queue.id and lane = progress.lane
                        and position > least(cursor, (select min(above) from unnest(awaited_above) as above))
                      order by position
                      limit 1) as first)) as waiting_since,
       least((select min(first.locked_until)          -- of the first message beyond the cursor, and the first under watch
                from unnest(queue.lanes) as opened
               cross join lateral (
                     select * from pgqueue.progress where queue_id = queue.id and lane = opened order by turn desc limit 1) as progress
               cross join lateral (
                     select locked_until
                       from pgqueue.message
                      where queue_id = queue.id and lane = progress.lane and position > cursor
                      order by position
                      limit 1) as first),
             (select locked_until
                from pgqueue.watch
                join pgqueue.message using (queue_id, lane, position)
               where watch.queue_id = queue.id and locked_until is not null
               order by due
               limit 1)) as first_locked_until,
       (select scheduled_enqueue_time
          from pgqueue.scheduled_message
         where queue_id = queue.id and scheduled_enqueue_time >= (
                   select due_from from pgqueue.scheduled_progress where queue_id = queue.id and kind = 'MESSAGE' order by turn desc limit 1)
         order by scheduled_enqueue_time
         limit 1) as next_scheduled,
       greatest((select due from pgqueue.watch where queue_id = queue.id order by due desc limit 1),
                (select max(locked_until) from pgqueue.session where queue_id = queue.id)) as held_until,
       array(select distinct unnest(awaited)
               from unnest(queue.lanes) as opened
              cross join lateral (
                    select * from pgqueue.progress where queue_id = queue.id and lane = opened order by turn desc limit 1) as progress) as awaited,
       array(select dead_lettered_at
               from pgqueue.dead_letter
              where queue_id::bigint = queue.id                     -- see the index dead_letter_position
              order by position desc
              limit (select 100)                             -- of a number it knows, the planner may sort all rows
             ) as last_dead_letters,
       least((select sent_at + duplicate_detection_history_time_window
                from pgqueue.sent_message_id
               where queue_id = queue.id and sent_at >= swept.until - duplicate_detection_history_time_window
               order by sent_at
               limit 1),
             (select forget_at from pgqueue.recorded_effect where queue_id = queue.id and forget_at >= swept.until order by forget_at limit 1),
             (select forget_at from pgqueue.published_batch where queue_id = queue.id and forget_at >= swept.until order by forget_at limit 1)
             ) as forget_at,
       array(select distinct timezone from pgqueue.schedule where queue_id = queue.id and not is_paused) as timezones,
       (select min(coalesce(fire_at, plan_at)) from pgqueue.schedule where queue_id = queue.id and not is_paused) as next_due,
       (select jsonb_object_agg(schedule.name, last_error)
          from pgqueue.schedule
         where queue_id = queue.id and not is_paused and last_error is not null) as schedule_errors
  from pgqueue.queue
 cross join lateral (
       select coalesce((select removed_until from pgqueue.sweep_progress where queue_id = queue.id), '-infinity') as until) as swept
 where (select pgqueue._check_counts())
 order by name;
