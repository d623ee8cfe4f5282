-- Returns in how many seconds a receive may find a message, after one that has found none: when the next lock expires,
-- or the next scheduled message or schedule is due; one second when the watch list does not decide, and when other
-- queues forward to this one. Each verb that makes a message due sooner than that sends a NOTIFY, but for locks that
-- last five seconds or longer: no consumer pauses for that long. In a queue with limits that has a message ready, the
-- limits decide, in a fair queue the group that waits next; it looks again after a second at most.
-- Returns  at least one second, but less where limits decide; null when nothing is known to become due; infinity while the
--          queue is paused.
create or replace function pgqueue._due_in(queue text)
returns double precision
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
    moment timestamptz   := pgqueue.clock();
    next   timestamptz;
begin
    if source.paused_at is not null then
        return 'infinity';
    end if;
    if num_nonnulls(source.max_receive_rate, source.max_concurrent) > 0 and pgqueue._has_ready(source) then
        return pgqueue._allowed_in(source);
    end if;
    if source.fair then
        next := (
            select available_at
              from pgqueue.waiting_session
             where queue_id = source.id and available_at >= pgqueue._due_from(source.id, 'SESSION')
             order by available_at
             limit 1);
        return case when next < moment + interval '1 second' then greatest(0.1, extract(epoch from next - moment)) else 1 end;
    end if;
    if source.requires_session or source.lock_duration < interval '5 seconds'
       or exists (select from pgqueue.queue where forward_to = source.id)
       or exists (select from pgqueue._scheduled_progress(source.id) where awaited <> '{}')
       or exists (
          select
            from pgqueue._progress(source.id, source.lanes) as progress
           where queue_id = source.id
             and (awaited <> '{}'
                  or horizon > pgqueue._last_number_drawn()
                  or horizon_taken_at > moment + interval '1 second'
                  or exists (
                     select
                       from pgqueue.message
                      where message.queue_id = progress.queue_id and message.lane = progress.lane
                        and message.position > progress.cursor)))
    then
        return 1;
    end if;
    next := least(
        (select min(due) from pgqueue.watch where queue_id = source.id and due >= pgqueue._due_from(source.id, 'WATCH')),
        (select min(scheduled_enqueue_time)
           from pgqueue.scheduled_message
          where queue_id = source.id and scheduled_enqueue_time >= pgqueue._due_from(source.id)),
        (select min(fire_at) from pgqueue.schedule where queue_id = source.id));
    return case when next is not null then greatest(1, extract(epoch from next - moment)) end;
end
$$;
