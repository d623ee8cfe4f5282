-- Plans the claim of pgqueue.receive under the settings of this session, and runs nothing: pgqueue doctor looks whether it still
-- is the plan that is pinned there. The statement, and the settings of this function, are those of pgqueue.receive.
-- Returns  the lines of the plan.
-- Raises   42501 access denied.
create or replace function pgqueue._claim_plan()
returns setof text
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
as $$
declare
    line text;
begin
    perform pgqueue._check_monitor();
    for line in execute
        'explain (costs off)
         select free.place, free.delivery_count, free.expires_at, free.position, known.nth
           from unnest(''{0,1}''::smallint[], ''{0,0}''::bigint[]) with ordinality as known (lane, cursor, nth)
          cross join lateral (
                select ctid as place, delivery_count, expires_at, position
                  from pgqueue.message
                 where queue_id = 1 and lane = known.lane and position > known.cursor
                   and (locked_until is null or locked_until <= now())
                 order by position
                 limit 10
                   for update skip locked) as free
          limit 10'
    loop
        return next line;
    end loop;
end
$$;
