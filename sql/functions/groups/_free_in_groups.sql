-- Locks the first free messages of these groups behind their cursors: at most `share` of each, or as many as its entry in `rooms` has
-- places, and at most `max_messages` together.
-- Returns  the places of the messages, their numbers, and for each the position of its group; the highest delivery count; when the first expires; and
--          whether much was read that was settled or is locked.
-- Locks    the messages; skips those that others hold.
create or replace function pgqueue._free_in_groups(
    queue_id integer, ids text[], cursors bigint[], share integer, rooms pgqueue.group_room[], max_messages integer, moment timestamptz,
    out places tid[], out numbers bigint[], out nths bigint[], out deliveries integer, out earliest timestamptz, out reads_much boolean)
language plpgsql
as $$
#variable_conflict use_column
declare
    fetched bigint := pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass);
begin
    select array_agg(place), array_agg(sequence_number), array_agg(nth), max(delivery_count), min(expires_at)
      into places, numbers, nths, deliveries, earliest
      from (select free.place, free.sequence_number, given.nth, free.delivery_count, free.expires_at
              from unnest(ids, cursors) with ordinality as given (id, cursor, nth)
             cross join lateral (select least(share, (rooms[nth]).places) as most) as room
             cross join lateral (
                   select ctid as place, sequence_number, delivery_count, expires_at
                     from pgqueue.message
                    where queue_id = _free_in_groups.queue_id and lane = 2000 and session_id <= given.id
                      and (session_id, position) > (given.id, given.cursor)
                      and (locked_until is null or locked_until <= moment)
                    order by session_id, position            -- see pgqueue._next_in_sessions
                    limit most
                      for update skip locked) as free
             limit max_messages) as found;
    reads_much := pg_stat_get_xact_blocks_fetched('pgqueue.message'::regclass) > fetched + 4 * cardinality(ids) + 8::bigint * max_messages;
end
$$;
