-- Tidies up one queue, handling up to `max_messages`. It decides nothing on an outdated view: a message that was
-- received, renewed or settled since it was found is left alone.
-- Returns  how many messages expired, were dead-lettered, returned, activated and forwarded, how many old
--          records were deleted, and how many of all these were handled.
create or replace function pgqueue._sweep_queue(
    queue pgqueue.queue, max_messages integer,
    out expired integer, out dead_lettered integer, out returned integer, out activated integer, out forgotten integer,
    out forwarded integer, out handled integer)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
    places tid[];
begin
    returned  := 0;
    activated := 0;
    forwarded := 0;
    if exists (select from pgqueue.scheduled_message where queue_id = queue.id and scheduled_enqueue_time <= moment) then
        activated := pgqueue._activate_scheduled(queue.id, '-infinity', max_messages);
    end if;
    handled := activated;
    expired := pgqueue._expire_due(queue, max_messages - handled);
    handled := handled + expired;
    places := array(
        select message.ctid
          from pgqueue._find_over_delivered(queue) as found
          join pgqueue.message using (queue_id, lane, position)
         where message.locked_until is null or message.locked_until <= moment
         limit max_messages - handled
           for update of message skip locked);
    if places <> '{}' then
        perform pgqueue._move_exhausted(queue, places);
    end if;
    dead_lettered := cardinality(places);
    handled       := handled + dead_lettered;
    handled := handled + pgqueue._repair_watch(queue.id, max_messages - handled);
    if exists (select from pgqueue.watch where queue_id = queue.id and due <= moment) then
        select outcome.returned, handled + outcome.looked_at into returned, handled
          from pgqueue._redeliver_watched(queue.id, '-infinity', max_messages - handled) as outcome;
    end if;
    if queue.forward_to is not null then
        forwarded := pgqueue._forward_waiting(queue, max_messages - handled);
        handled   := handled + forwarded;
    end if;
    forgotten := pgqueue._delete_old_records(queue, max_messages - handled);
    handled   := handled + forgotten;
end
$$;
