-- Shows messages without changing them: ready, locked, deferred and scheduled ones, from `from_sequence_number` on. No
-- message is locked and no delivery is counted; lock tokens are not shown. An expired message is shown until a receive
-- or a sweep removes it.
-- Returns  one row per message, by sequence number; scheduled_enqueue_time is null unless the message is scheduled.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
create or replace function pgqueue.peek(queue text, max_messages integer default 1, from_sequence_number bigint default 0)
returns setof pgqueue.received_message
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue;
begin
    if pgqueue._is_dead_letter_queue(queue) then
        return query
            select *
              from pgqueue.peek_dead_letters(pgqueue._dead_letters_of(queue), max_messages, from_sequence_number);
        return;
    end if;
    source := pgqueue._find_queue(queue, 'RECEIVE');
    perform pgqueue._check_bound(coalesce(max_messages, 0));
    perform pgqueue._use(source);
    return query
        select (pgqueue._as_received(message, null, scheduled_enqueue_time)).*
          from (
            (select message, sequence_number, null::timestamptz as scheduled_enqueue_time
               from pgqueue._progress(source.id, source.lanes) as progress
              cross join lateral (
                    select message, sequence_number
                      from pgqueue._lane_messages(progress, from_sequence_number) as message
                     limit max_messages) as fresh
              where progress.lane % 2 <> 0)
             union all
            select returned, sequence_number, null::timestamptz
              from pgqueue._returned_by_number(source, from_sequence_number, max_messages) as returned
             union all
            select pgqueue._scheduled_as_message(scheduled), (scheduled).sequence_number, (scheduled).scheduled_enqueue_time
              from pgqueue._scheduled_by_number(source.id, from_sequence_number, max_messages)) as found
         order by sequence_number
         limit max_messages;
end
$$;
