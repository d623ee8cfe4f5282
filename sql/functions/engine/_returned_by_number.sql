-- Returns messages of a queue that came back, were deferred, or belong to sessions, by sequence number, at most `max_messages`. They come
-- in no order of their numbers, so an index of the numbers has dead entries anywhere. Where few are there, they are read lane by
-- lane, past what has died, and sorted.
create or replace function pgqueue._returned_by_number(queue pgqueue.queue, from_number bigint, max_messages integer)
returns setof pgqueue.message
language plpgsql stable
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    few   constant integer           := 500;
    found          pgqueue.message[] := array(
        select present
          from (select returned as present
                  from pgqueue._progress(queue.id, queue.lanes) as progress
                 cross join lateral pgqueue._lane_messages(progress, 0) as returned
                 where progress.lane % 2 = 0
                 union all
                select deferred from pgqueue._deferred_messages(queue.id) as deferred) as present
         where not (queue.requires_session or queue.fair)
         limit few + 1);
begin
    if queue.requires_session or queue.fair or cardinality(found) > few then
        return query
            select *
              from pgqueue.message
             where queue_id = queue.id and lane % 2 = 0 and sequence_number >= from_number
             order by sequence_number
             limit max_messages;
    else
        return query
            select * from unnest(found) as present where sequence_number >= from_number order by sequence_number limit max_messages;
    end if;
end
$$;
