-- Tidies up one queue, handling up to `max_messages`. Where it reads many pages, it records how far it has come, and
-- does not look `since` when that was removed until everything is looked over again (pgqueue._swept_until). It decides
-- nothing on an outdated view: a message that was received, renewed or settled since it was found is left alone.
-- Returns  how many messages expired, were dead-lettered, returned, activated and forwarded, how many old
--          records were deleted, and how many of all these were handled.
create or replace function pgqueue._sweep_queue(
    queue pgqueue.queue, max_messages integer, since timestamptz,
    out expired integer, out dead_lettered integer, out returned integer, out activated integer, out forgotten integer,
    out forwarded integer, out handled integer)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    moment  timestamptz := pgqueue.clock();
    pages   bigint      := pgqueue._pages_read();
    expires timestamptz := since;
    due     timestamptz;
    watched timestamptz;
    places  tid[];
begin
    returned  := 0;
    activated := 0;
    forwarded := 0;
    due := case when since = '-infinity' then since else pgqueue._due_from(queue.id) end;
    due := (select min(scheduled_enqueue_time)
              from pgqueue.scheduled_message
             where queue_id = queue.id and scheduled_enqueue_time between due and moment);
    if due is not null then
        activated := pgqueue._activate_scheduled(queue.id, due, max_messages);
        expires   := least(since, due);                      -- messages activated late may have expired since
    end if;
    handled := activated;
    expired := pgqueue._expire_due(queue, max_messages - handled, expires);
    handled := handled + expired;
    places := array(
        select place
          from pgqueue._find_over_delivered(queue, since) as found
         cross join lateral (                                 -- one by one: a join may read the table through
               select message.ctid as place
                 from pgqueue.message
                where message.queue_id = found.queue_id and message.lane = found.lane and message.position = found.position
                  and (message.locked_until is null or message.locked_until <= moment)
                limit 1
                  for update skip locked) as held
         limit max_messages - handled);
    if places <> '{}' then
        perform pgqueue._move_exhausted(queue, places);
    end if;
    dead_lettered := cardinality(places);
    handled       := handled + dead_lettered;
    if since = '-infinity' then
        handled := handled + pgqueue._repair_watch(queue.id, max_messages - handled);
    end if;
    perform pgqueue._sweep_fronts(queue.id, since = '-infinity');
    watched := case when since = '-infinity' then since else pgqueue._due_from(queue.id, 'WATCH') end;
    if exists (select from pgqueue.watch where queue_id = queue.id and watch.due between watched and pgqueue.clock()) then
        select outcome.returned, handled + outcome.looked_at into returned, handled
          from pgqueue._redeliver_watched(queue.id, watched, max_messages - handled) as outcome;
    end if;
    if queue.forward_to is not null then
        forwarded := pgqueue._forward_waiting(queue, max_messages - handled);
        handled   := handled + forwarded;
    end if;
    forgotten := pgqueue._delete_old_records(queue, max_messages - handled, since);
    handled   := handled + forgotten;
    if pgqueue._pages_read() > pages + 100 and coalesce(handled < max_messages, true) then
        perform pgqueue._record_sweep(queue, expires);
    end if;
end
$$;
