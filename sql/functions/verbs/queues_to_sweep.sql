-- Lists what pgqueue.sweep can do in one transaction each, so that none lasts for long: null, all queues, where there are few. Where there
-- are many, the names of none, for what belongs to no queue, and of up to 500 in each other row, in another order each time.
-- Those who may not monitor get null; a sweep of theirs is refused.
-- Returns  values of its argument `queues`.
create or replace function pgqueue.queues_to_sweep()
returns setof text[]
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_caller();
    return query
          with queue as (select name, (row_number() over (order by random()) - 1) / 500 as part from pgqueue.queue where pgqueue._may_monitor())
        select case when last > 0 then array(select name from queue where part = number) end
          from (select coalesce(max(part), 0) as last from queue) as known
         cross join generate_series(-sign(last)::integer, last) as number
         order by random();
end
$$;
