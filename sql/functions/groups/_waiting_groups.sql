-- Locks the groups of a queue that have waited longest, at most `max_groups`, except those that were `passed`. If a group has several rows,
-- removes all but the first, except those that a sender holds.
-- Returns  the places of their rows, the groups, and their cursors.
-- Locks    the rows against other receivers; senders may hold them meanwhile.
create or replace function pgqueue._waiting_groups(
    queue_id integer, passed text[], max_groups integer, moment timestamptz, out places tid[], out ids text[],
    out cursors bigint[])
language plpgsql
as $$
#variable_conflict use_column
declare
    fetched bigint := pg_stat_get_xact_blocks_fetched('pgqueue.waiting_session'::regclass);
    groups  integer;
begin
    select array_agg(place), array_agg(session_id), count(distinct session_id),
           array_agg(case when awaited is null and horizon <= (select last_value from pgqueue.sequence_number) then cursor else pgqueue._group_cursor(known) end)
      into places, ids, groups, cursors
      from (select ctid as place, session_id, cursor, horizon, awaited, waiting_session as known
              from pgqueue.waiting_session
             where queue_id = _waiting_groups.queue_id
               and available_at between pgqueue._due_from(_waiting_groups.queue_id, 'SESSION') and moment
               and session_id <> all (passed)
             order by available_at
             limit max_groups
               for no key update skip locked) as waiting;
    if pg_stat_get_xact_blocks_fetched('pgqueue.waiting_session'::regclass) > fetched + 2 * max_groups + 32 then
        perform pgqueue._pass_due_times(_waiting_groups.queue_id, 'SESSION');
    end if;
    if groups < cardinality(ids) then
        select array_agg(place order by nth), array_agg(session_id order by nth), array_agg(cursor order by nth) into places, ids, cursors
          from (select (array_agg(place order by nth))[1] as place, session_id, max(cursor) as cursor, min(nth) as nth
                  from unnest(places, ids, cursors) with ordinality as waiting (place, session_id, cursor, nth)
                 group by session_id) as first;
        perform pgqueue._merge_waiting(_waiting_groups.queue_id, places, ids);
    end if;
end
$$;
