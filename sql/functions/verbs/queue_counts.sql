-- Counts the messages of one queue, or of all queues when `queue` is null, by state. All queues are counted in one pass
-- over each table, one queue by its part of the indexes: ask for one where you need one. Where most of the tables has died, and
-- in a queue with fewer than 20,000 messages, they are counted from the cursors on instead (pgqueue._messages_of). A scheduled
-- message that is due is counted as a receive would find it, although none has moved it yet.
-- Returns  one row per queue, with the time at which the oldest ready message was enqueued, and the size of the bodies and
--          application properties of all messages but dead letters: in bytes, as stored, so large ones are compressed.
-- Raises   PQ002 unknown queue.
create or replace function pgqueue.queue_counts(queue text default null)
returns table (name text, ready bigint, locked bigint, deferred bigint, expired bigint, exhausted bigint,
               scheduled bigint, dead_letters bigint, oldest_enqueued_time timestamptz, size_in_bytes bigint)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
    wanted integer;
    by_cursors boolean;
begin
    if queue_counts.queue is not null then
        wanted := (pgqueue._find_queue(queue_counts.queue, 'MONITOR')).id;
    else
        perform pgqueue._check_monitor();
    end if;
    by_cursors := pgqueue._rows_to_count() is not null
                  or wanted is not null and (select count(*) < 20000 from (select from pgqueue._messages_of(wanted) limit 20000) as first);
    -- Planned each time with `wanted` as a constant, so that the conditions choose between the index and the whole table. No
    -- function is called for a message: one that is not parallel safe would keep the pass in one process.
    return query
        select queue.name, coalesce(present.ready, 0), coalesce(present.locked, 0), coalesce(present.deferred, 0),
               coalesce(present.expired, 0), coalesce(present.exhausted, 0), coalesce(present.scheduled, 0),
               coalesce(dead.dead_letters, 0), present.oldest, coalesce(present.size, 0)
          from pgqueue.queue
          left join (
               select queue_id,
                      count(*) filter (where state = 'READY') as ready,
                      count(*) filter (where state = 'LOCKED') as locked,
                      count(*) filter (where state = 'DEFERRED') as deferred,
                      count(*) filter (where state = 'EXPIRED') as expired,
                      count(*) filter (where state = 'EXHAUSTED') as exhausted,
                      count(*) filter (where state = 'SCHEDULED') as scheduled,
                      min(enqueued_time) filter (where state = 'READY') as oldest,
                      sum(bytes) as size
                 from (select queue_id, enqueued_time,
                              coalesce(pg_column_size(body), pg_column_size(binary_body))
                                  + coalesce(pg_column_size(application_properties), 0) as bytes,
                              case when requires_session and lock_token is not null
                                        and exists (
                                            select
                                              from pgqueue.session as held
                                             where held.queue_id = message.queue_id and held.session_id = message.session_id
                                               and held.lock_token = message.lock_token and held.locked_until > moment)
                                   then 'LOCKED'
                                   when locked_until > moment and (not requires_session or lock_token is null) then 'LOCKED'
                                   when expires_at <= moment then 'EXPIRED'
                                   when delivery_count >= max_delivery_count then 'EXHAUSTED'
                                   when lane between 800 and 1200 then 'DEFERRED'
                                   else 'READY' end as state
                         from (select *
                                 from pgqueue.message
                                where not by_cursors and (wanted is null or queue_id = wanted)
                                union all
                               select found.*
                                 from pgqueue.queue
                                cross join lateral pgqueue._messages_of(queue.id) as found
                                where by_cursors and (wanted is null or queue.id = wanted)) as message
                         join pgqueue.queue on queue.id = queue_id
                        union all
                       select queue_id, enqueued_time,
                              coalesce(pg_column_size(body), pg_column_size(binary_body))
                                  + coalesce(pg_column_size(application_properties), 0),
                              case when scheduled_enqueue_time > moment then 'SCHEDULED'
                                   when expires_at <= moment then 'EXPIRED'
                                   when delivery_count >= max_delivery_count then 'EXHAUSTED'
                                   else 'READY' end
                         from (select *
                                 from pgqueue.scheduled_message
                                where not by_cursors and (wanted is null or queue_id = wanted)
                                union all
                               select found.*
                                 from pgqueue.queue
                                cross join lateral pgqueue._scheduled_messages_of(queue.id) as found
                                where by_cursors and (wanted is null or queue.id = wanted)) as scheduled
                         join pgqueue.queue on queue.id = queue_id) as message
                group by queue_id) as present on present.queue_id = queue.id
          left join (
               select queue_id, count(*) as dead_letters
                 from pgqueue.dead_letter
                where wanted is null or queue_id = wanted
                group by queue_id) as dead on dead.queue_id = queue.id
         where wanted is null or queue.id = wanted;
end
$$;
