-- Counts the messages of all queues by state, as pgqueue.queue_counts does, but reads only about so many pages of each table.
-- Of a table with more pages it reads a random sample, and multiplies; the queues that have fewer than ten messages there
-- are looked up instead.
-- Returns  one row per queue; `is_exact` is false when a number in it is an estimate. The oldest enqueued time is then that of
--          the oldest ready message that was read.
-- Raises   PQ007 invalid argument, 42501 access denied.
create or replace function pgqueue.queue_estimates(pages integer default 25000)
returns table (name text, ready bigint, locked bigint, deferred bigint, expired bigint, exhausted bigint,
               scheduled bigint, dead_letters bigint, oldest_enqueued_time timestamptz, size_in_bytes bigint,
               is_exact boolean)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
    shares float8[];                                         -- of the messages, the scheduled ones, the dead letters
begin
    perform pgqueue._check_monitor();
    if queue_estimates.pages is null or queue_estimates.pages < 1 then
        perform pgqueue._refuse_argument('pages', 'a positive whole number', queue_estimates.pages::text);
    end if;
    shares := array(
        select least(1, queue_estimates.pages * current_setting('block_size')::float8 / greatest(1, pg_relation_size(kept)))
          from unnest(array['pgqueue.message', 'pgqueue.scheduled_message', 'pgqueue.dead_letter']::regclass[])
               with ordinality as known (kept, nth)
         order by nth);
    if shares[3] = 1 and (1 = all (shares) or pgqueue._rows_to_count() <= queue_estimates.pages) then
        return query select *, true from pgqueue.queue_counts();
        return;
    end if;
    return query
        with known as (                                      -- the first ten of each queue, and the sample
            select 1 as kept, false as is_sample, queue_id, lane, delivery_count, false as is_scheduled,
                   locked_until > moment as is_locked, expires_at <= moment as is_expired,
                   1::bigint as messages, enqueued_time as oldest,
                   coalesce(pg_column_size(body), pg_column_size(binary_body))
                       + coalesce(pg_column_size(application_properties), 0)::bigint as bytes
              from pgqueue.queue
             cross join lateral (
                   select * from pgqueue._messages_of(queue.id) limit 10) as message
             union all
            select 2, false, queue.id, null, delivery_count, scheduled_enqueue_time > moment, null, expires_at <= moment,
                   1, enqueued_time,
                   coalesce(pg_column_size(body), pg_column_size(binary_body))
                       + coalesce(pg_column_size(application_properties), 0)
              from pgqueue.queue
             cross join lateral (
                   select * from pgqueue._scheduled_messages_of(queue.id) limit 10) as scheduled
             union all
            select 3, false, queue.id, null, null, null, null, null, 1, null, null
              from pgqueue.queue
             cross join lateral (
                   select from pgqueue._dead_letters_from(queue.id, 0) limit 10) as dead
             union all
            select 1, true, queue_id, lane, delivery_count, false, locked_until > moment, expires_at <= moment,
                   count(*), min(enqueued_time),
                   sum(coalesce(pg_column_size(body), pg_column_size(binary_body))
                       + coalesce(pg_column_size(application_properties), 0))
              from pgqueue.message tablesample system (100 * shares[1])
             group by 3, 4, 5, 7, 8                          -- before the join: few rows reach it
             union all
            select 2, true, queue_id, null, delivery_count, scheduled_enqueue_time > moment, null, expires_at <= moment,
                   count(*), min(enqueued_time),
                   sum(coalesce(pg_column_size(body), pg_column_size(binary_body))
                       + coalesce(pg_column_size(application_properties), 0))
              from pgqueue.scheduled_message tablesample system (100 * shares[2])
             group by 3, 5, 6, 8
             union all
            select 3, true, queue_id, null, null, null, null, null, count(*), null, null
              from pgqueue.dead_letter tablesample system (100 * shares[3])
             group by 3
        ), counted as (
            select queue_id, kept, state, min(oldest) as oldest,
                   sum(bytes) filter (where not is_sample) as first_bytes,
                   sum(bytes) filter (where is_sample) / shares[kept] as estimated_bytes,
                   sum(messages) filter (where not is_sample) as first,
                   sum(messages) filter (where is_sample) / shares[kept] as estimate,
                   sum(count(*) filter (where not is_sample)) over (partition by queue_id, kept) < 10 or shares[kept] = 1 as is_exact
              from (select known.*,
                           case when is_scheduled then 'SCHEDULED'
                                when kept = 3 then 'DEAD'
                                when is_locked then 'LOCKED'
                                when is_expired then 'EXPIRED'
                                when delivery_count >= max_delivery_count then 'EXHAUSTED'
                                when lane between 800 and 1200 then 'DEFERRED'
                                else 'READY' end as state
                      from known
                      join pgqueue.queue on queue.id = queue_id) as known
             group by queue_id, kept, state
        ), combined as (
            select queue_id, state, oldest, is_exact,
                   case when is_exact and shares[kept] < 1 then first else greatest(first, round(estimate)) end::bigint as messages,
                   case when is_exact and shares[kept] < 1 then first_bytes else greatest(first_bytes, round(estimated_bytes)) end::bigint as bytes
              from counted
        )
        select queue.name,
               coalesce(sum(messages) filter (where state = 'READY'), 0)::bigint,
               coalesce(sum(messages) filter (where state = 'LOCKED'), 0)::bigint,
               coalesce(sum(messages) filter (where state = 'DEFERRED'), 0)::bigint,
               coalesce(sum(messages) filter (where state = 'EXPIRED'), 0)::bigint,
               coalesce(sum(messages) filter (where state = 'EXHAUSTED'), 0)::bigint,
               coalesce(sum(messages) filter (where state = 'SCHEDULED'), 0)::bigint,
               coalesce(sum(messages) filter (where state = 'DEAD'), 0)::bigint,
               min(oldest) filter (where state = 'READY'),
               coalesce(sum(bytes), 0)::bigint,
               coalesce(bool_and(is_exact), true)
          from pgqueue.queue
          left join combined on queue_id = queue.id
         group by queue.id;
end
$$;
