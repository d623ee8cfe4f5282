-- Returns scheduled messages of a queue, by sequence number, at most `max_messages`. They come in no order of their numbers, so an
-- index of the numbers has dead entries anywhere. Where few are there, they are read by their times, past what has died, and sorted.
create or replace function pgqueue._scheduled_by_number(queue_id integer, from_number bigint, max_messages integer)
returns table (place tid, scheduled pgqueue.scheduled_message)
language plpgsql stable
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    few   constant integer     := 500;
    since          timestamptz := pgqueue._earliest_due(queue_id);
    found          tid[]       := array(
        select ctid
          from pgqueue.scheduled_message
         where queue_id = _scheduled_by_number.queue_id and scheduled_enqueue_time >= since
         order by scheduled_enqueue_time
         limit few + 1);
begin
    if cardinality(found) > few then
        return query
            select ctid, known
              from pgqueue.scheduled_message as known
             where queue_id = _scheduled_by_number.queue_id and sequence_number >= from_number
             order by sequence_number
             limit max_messages;
    else
        return query
            select entry.place, known
              from unnest(found) as entry (place)
             cross join lateral (                             -- one by one: otherwise an index of the numbers may be read through
                   select message as known from pgqueue.scheduled_message as message where ctid = entry.place limit 1) as held
             where (known).sequence_number >= from_number
             order by (known).sequence_number
             limit max_messages;
    end if;
end
$$;
