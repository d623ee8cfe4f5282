-- Sets groups aside in which a receive has found no free message; `places` are their rows among those that wait. A group waits until the first
-- of its messages is free again, because its lock expires or the delay of an abandon ends. A group without messages is kept for an hour, for
-- the sake of its cursor, and then removed. A group at its limits waits until they allow a message again, for a minute at most, unless a slot
-- has become free meanwhile.
--
-- Moves a row only when it was locked FOR UPDATE, so no sender holds it, and a new snapshot was searched again, as in pgqueue._forget_waiting;
-- a sender that comes later adds another row. The others stay available: a message may come, or a transaction holds the free ones.
-- Returns  the places and the groups that stay available; unless they `may_stay`, receives look at them again after a second.
-- Locks    the rows, until the transaction ends; skips those that others hold.
create or replace function pgqueue._set_aside(
    source pgqueue.queue, inout places tid[], rooms pgqueue.group_room[], drawn bigint, may_stay boolean, out ids text[])
language plpgsql
as $$
#variable_conflict use_column
declare
    alone  tid[] := '{}';                                    -- an old snapshot proves nothing
    moment timestamptz;
    later  record;
begin
    if current_setting('transaction_isolation') = 'read committed' then
        alone := array(
            select ctid
              from pgqueue.waiting_session
             where ctid = any (places) and changed_by <> pg_current_xact_id()       -- see pgqueue._forget_waiting
               for update skip locked);
    end if;
    moment := pgqueue.clock();
    with looked_at as materialized (
        select waiting.ctid as place, session_id,
               case when is_idle then coalesce(held.next, case when horizon_taken_at > moment - interval '1 hour' then moment + interval '1 hour' end)
                    when room.group_id is not null and waiting.ctid = any (alone)
                    then case when room.is_full and room.next > moment then least(room.next, moment + interval '1 minute') else '-infinity' end
                    when may_stay then '-infinity'
                    else moment + interval '1 second' end as next
          from pgqueue.waiting_session as waiting
         cross join lateral (select pgqueue._group_cursor(waiting) as cursor) as passed
          left join lateral (
               select group_id, next,
                      (max_concurrent <= cardinality(numbers)
                       and cardinality(numbers) > (select count(*) from pgqueue._find_by_token(source, numbers, tokens))
                      ) is not true as is_full
                 from unnest(rooms) as room
                where group_id = waiting.session_id and next is not null
                limit 1) as room on true
         cross join lateral (
               select room.group_id is null and waiting.ctid = any (alone)
                  and (select true
                         from pgqueue.message
                        where message.queue_id = waiting.queue_id and lane = 2000 and message.session_id <= waiting.session_id
                          and (message.session_id, position) > (waiting.session_id, passed.cursor)
                          and (locked_until is null or locked_until <= moment)
                        order by message.session_id, position      -- see pgqueue._next_in_sessions
                        limit 1) is null as is_idle) as known
         cross join lateral (
               select min(locked_until) as next               -- none is in the past, as the group is idle
                 from (select locked_until
                         from pgqueue.message
                        where is_idle
                          and message.queue_id = waiting.queue_id and lane = 2000 and message.session_id <= waiting.session_id
                          and (message.session_id, position) > (waiting.session_id, passed.cursor)
                        order by message.session_id, position) as known) as held
         where waiting.ctid = any (places)
    ), forgotten as (
        delete from pgqueue.waiting_session where ctid = any (array(select place from looked_at where next is null)))
    select coalesce(array_agg(place) filter (where next = '-infinity'), '{}') as places,
           coalesce(array_agg(session_id) filter (where next = '-infinity'), '{}') as ids,
           array_agg(place) filter (where next > '-infinity') as set_aside,
           array_agg(next) filter (where next > '-infinity') as nexts
      into later
      from looked_at;
    if later.set_aside is not null then
        perform pgqueue._move_groups(later.set_aside, later.nexts, drawn, reads_much => true);
    end if;
    places := later.places;
    ids    := later.ids;
end
$$;
