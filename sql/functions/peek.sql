-- Shows messages without touching them: those that wait, those that are locked and those that are scheduled, from
-- `from_sequence_number` on. Nothing is locked or counted, and lock tokens are not shown.
-- Returns  a row a message, by sequence number; scheduled_enqueue_time is null unless it is scheduled.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
create or replace function pgqueue.peek(queue text, max_messages integer default 1, from_sequence_number bigint default 0)
returns setof pgqueue.scheduled_message
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    source  pgqueue.queue := pgqueue._find_queue(queue);
    browsed pgqueue.scheduled_message;
begin
    perform pgqueue._check_bound(coalesce(max_messages, 0));
    for browsed in
        select fresh.*, null::timestamptz
          from unnest(source.fresh_lanes) as known (lane)
         cross join lateral (
               select *
                 from pgqueue.message
                where queue_id = source.id and lane = known.lane and position >= from_sequence_number
                order by position
                limit max_messages) as fresh
         union all
        (select returned.*, null::timestamptz
           from pgqueue.message as returned
          where queue_id = source.id and lane % 2 = 0 and sequence_number >= from_sequence_number
          order by sequence_number
          limit max_messages)
         union all
        (select *
           from pgqueue.scheduled_message
          where queue_id = source.id and sequence_number >= from_sequence_number
          order by sequence_number
          limit max_messages)
         order by sequence_number
         limit max_messages
    loop
        browsed.lock_token := null;
        return next browsed;
    end loop;
end
$$;
