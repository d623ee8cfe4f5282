-- Returns the outcomes of messages in a queue with `result_retention`, for as long as that lasts. The right to send to the queue or to
-- receive from it suffices. A dead letter that was resubmitted, or a message that came back in another way, is not settled.
-- Returns  one row for each number of a message that is settled, and one with a null state where the queue has neither the
--          message nor its outcome; none for a message that is not settled. `error` has the reason, the description and the
--          last error of a message that was dead-lettered or deleted.
-- Raises   PQ002 unknown queue; PQ007 invalid argument, when the queue keeps no results.
create or replace function pgqueue.outcomes(queue text, sequence_numbers bigint[])
returns table (sequence_number bigint, state text, result jsonb, error jsonb, settled_at timestamptz)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue, 'OUTCOME');
    oldest timestamptz   := pgqueue.clock() - source.result_retention;
begin
    if oldest is null then
        perform pgqueue._refuse_result(queue);
    end if;
    return query                              -- one statement: a message that is settled meanwhile is seen in one place
        select number, known.state, known.result, known.error, known.settled_at
          from unnest(sequence_numbers) as number
          left join lateral (                                -- by the indexes in these orders, whatever the statistics
               select *
                 from pgqueue.outcome
                where queue_id = source.id and outcome.sequence_number between number and number and settled_at > oldest
                order by outcome.sequence_number
                limit 1) as known on true
         where (select true
                  from unnest(source.fresh_lanes) as fresh (lane)
                 cross join lateral (
                       select
                         from pgqueue.message
                        where queue_id = source.id and lane = fresh.lane and position between number and number
                        order by position
                        limit 1) as waiting
                 limit 1) is null
           and (select true
                  from pgqueue.message
                 where queue_id = source.id and lane % 2 = 0 and message.sequence_number between number and number
                 order by message.sequence_number
                 limit 1) is null
           and (select true
                  from pgqueue.scheduled_message as scheduled
                 where queue_id = source.id and scheduled.sequence_number between number and number
                 order by scheduled.sequence_number
                 limit 1) is null;
end
$$;
