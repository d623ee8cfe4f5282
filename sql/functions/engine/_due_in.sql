-- Returns in how many seconds a receive may find a message, after one that has found none: when the next lock expires
-- or the next scheduled message is due; one second when the watch list cannot tell. Whatever makes a message due sooner
-- than that sends a NOTIFY. Locks that last five seconds or longer need none, because no consumer pauses for that long.
-- Returns  null when nothing is known to become due.
create or replace function pgqueue._due_in(queue text)
returns double precision
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue);
    moment timestamptz   := pgqueue.clock();
begin
    if source.lock_duration < interval '5 seconds'
       or exists (
          select
            from pgqueue.progress
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
    return extract(epoch from least(
        (select min(due) from pgqueue.watch where queue_id = source.id),
        (select min(scheduled_enqueue_time) from pgqueue.scheduled_message where queue_id = source.id)) - moment);
end
$$;
