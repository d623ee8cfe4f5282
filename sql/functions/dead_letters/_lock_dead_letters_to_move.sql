-- Locks the dead letters that are to be resubmitted or purged: those with these sequence numbers, with this reason, dead-lettered by
-- `until`, with numbers above `after`, and at most `max_messages`, the lowest numbers first. An argument that is null does not
-- restrict the selection. Skips those that open transactions hold, and those that are locked by a receiver, unless `even_locked`.
-- Returns  the places of the rows, which are locked until the transaction ends.
create or replace function pgqueue._lock_dead_letters_to_move(
    queue pgqueue.queue, sequence_numbers bigint[], reason text, until timestamptz, after bigint, max_messages integer,
    even_locked boolean default false)
returns tid[]
language plpgsql
set plan_cache_mode = force_custom_plan
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    moment  timestamptz := pgqueue.clock();
    fetched bigint      := pg_stat_get_xact_blocks_fetched('pgqueue.dead_letter'::regclass);
    places  tid[];
begin
    places := array(
        select held.place
          from ((select sequence_number, position
                   from pgqueue.dead_letter
                  where sequence_numbers is not null and queue_id = queue.id and sequence_number = any (sequence_numbers)
                    and (after is null or sequence_number > after)
                  order by sequence_number)
                 union all
                select sequence_number, position
                  from pgqueue._dead_letters_from(queue.id, case when after < 9223372036854775807 then after + 1 else coalesce(after, 0) end)
                 where sequence_numbers is null) as found
         cross join lateral (
               select ctid as place
                 from pgqueue.dead_letter
                where queue_id = queue.id and sequence_number = found.sequence_number and position = found.position
                  and (reason is null or dead_letter_reason = reason)
                  and (until is null or dead_lettered_at <= until)
                  and (even_locked or locked_until is null or locked_until <= moment)
                limit 1
                  for update skip locked) as held
         limit max_messages);
    perform pgqueue._pass_read(queue.id, fetched, cardinality(places));
    return places;
end
$$;
