-- Counts what pgqueue._sweep_queue would do now without a bound; no row is locked.
create or replace function pgqueue._preview_sweep(
    queue pgqueue.queue, since timestamptz,
    out expired integer, out dead_lettered integer, out returned integer, out activated integer, out forgotten integer,
    out forwarded integer, out handled integer)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    moment    timestamptz := pgqueue.clock();
    exhausted integer;
begin
    select count(*), count(*) filter (where expires_at <= moment),
           count(*) filter (where delivery_count >= queue.max_delivery_count and not coalesce(expires_at <= moment, false))
      into activated, expired, exhausted
      from pgqueue.scheduled_message
     where queue_id = queue.id and scheduled_enqueue_time <= moment
       and scheduled_enqueue_time >= case when since = '-infinity' then since else pgqueue._due_from(queue.id) end;
    select exhausted + count(*) into dead_lettered
      from pgqueue._find_over_delivered(queue, since)
     where expires_at is null or expires_at > moment;
    select count(*) into returned
      from (select lane, position from pgqueue.watch where queue_id = queue.id and due <= moment
             union all
            select lane, position from pgqueue._find_overlooked(queue.id) where since = '-infinity'
            offset 0) as found                                -- looked up one by one: a join may read the whole queue
     cross join lateral (
           select *
             from pgqueue.message
            where message.queue_id = queue.id and message.lane = found.lane and message.position = found.position
            limit 1) as message
     where (expires_at is null or expires_at > moment)
       and delivery_count < queue.max_delivery_count and (locked_until is null or locked_until <= moment);
    forwarded := 0;
    if queue.forward_to is not null then
        select count(*) into forwarded
          from pgqueue._progress(queue.id, queue.lanes) as progress
         cross join lateral (
               select *
                 from pgqueue.message
                where message.queue_id = queue.id and message.lane = progress.lane and message.position > cursor
               offset 0) as message
         where (expires_at is null or expires_at > moment)
           and delivery_count < queue.max_delivery_count and (locked_until is null or locked_until <= moment);
    end if;
    select expired + count(*) into expired
      from pgqueue.message
     where queue_id = queue.id and expires_at >= since and expires_at <= moment and (locked_until is null or locked_until <= moment)
       and not (queue.requires_session and pgqueue._is_held_in_session(message));
    select count(*) into forgotten
      from (select
              from pgqueue.sent_message_id
             where queue_id = queue.id and sent_at >= since - queue.duplicate_detection_history_time_window
               and sent_at <= moment - queue.duplicate_detection_history_time_window
             order by sent_at) as ids;                        -- by the index in that order, whatever the statistics
    select forgotten + count(*) into forgotten
      from (select
              from pgqueue.recorded_effect
             where queue_id = queue.id and forget_at >= since and forget_at <= moment
             order by forget_at) as records;
    select forgotten + count(*) into forgotten
      from (select
              from pgqueue.published_batch
             where queue_id = queue.id and forget_at >= since and forget_at <= moment
             order by forget_at) as records;
    select forgotten + count(*) into forgotten
      from (select
              from pgqueue.outcome
             where queue_id = queue.id and settled_at >= since - coalesce(queue.result_retention, interval '0')
               and settled_at <= moment - coalesce(queue.result_retention, interval '0')
             order by settled_at) as records;
    select forgotten + count(*) into forgotten
      from (select
              from pgqueue.waiting_for_outcome
             where queue_id = queue.id and waits_until >= since and waits_until <= moment
             order by waits_until) as records;
    if since = '-infinity' then
        select forgotten + count(*) into forgotten from pgqueue._free_unique_keys(queue, null, lock_rows => false);
    end if;
    handled := 0;
end
$$;
