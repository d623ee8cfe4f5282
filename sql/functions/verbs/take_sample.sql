-- Records the figures of the busiest queues, at most `max_queues`, for pgqueue.samples: what each holds, and of those that
-- retain history what was settled in the last minute, how long messages waited until they were first received, and how long
-- until they were settled then. Called again in the same minute it does nothing. Samples older than a week are deleted.
-- Returns  how many queues were sampled.
-- Raises   PQ007 invalid argument, 42501 access denied.
create or replace function pgqueue.take_sample(max_queues integer default 100)
returns integer
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
    moment  timestamptz := date_trunc('minute', pgqueue.clock());
    shares  constant float8[] := '{0.5,0.95,0.99}';
    sampled integer;
begin
    perform pgqueue._check_monitor();
    if max_queues is null or max_queues < 1 then
        perform pgqueue._refuse_argument('max_queues', 'a positive whole number', max_queues::text);
    end if;
    if not pgqueue._only_one('pgqueue.sample_lock')
       or exists (select from pgqueue.sample where sampled_at >= moment) then
        return 0;
    end if;
    delete from pgqueue.sample where sampled_at < moment - interval '7 days';
    insert into pgqueue.sample
    select queue.id, moment, ready, locked, scheduled, deferred, dead_letters, is_exact,
           extract(epoch from pgqueue.clock() - oldest_enqueued_time)::real,
           case when retain_history is not null then coalesce(settled, 0) end, waited, worked
      from pgqueue.queue_estimates()
      join pgqueue.queue using (name)
      left join (
           select queue_id, count(*) as settled,
                  percentile_cont(shares) within group (order by extract(epoch from first_locked_at - enqueued_time))
                  filter (where first_locked_at is not null)::real[] as waited,
                  percentile_cont(shares) within group (order by extract(epoch from settled_at - first_locked_at))
                  filter (where first_locked_at is not null)::real[] as worked
             from pgqueue.settled_message
            where slot in (pgqueue._history_slot(moment), pgqueue._history_slot(moment - interval '1 minute'))
              and settled_at >= moment - interval '1 minute' and settled_at < moment and outcome <> 'DEAD_LETTERED'
            group by queue_id) as history on queue_id = queue.id
     order by settled desc nulls last, ready + locked + scheduled + deferred + dead_letters desc, queue.id
     limit max_queues;
    get diagnostics sampled = row_count;
    return sampled;
end
$$;
