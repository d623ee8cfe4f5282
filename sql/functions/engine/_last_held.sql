-- Returns how far messages are held in a lane, from its recorded cursor on: as far as there is no gap of a hundred messages
-- that are not held.
create or replace function pgqueue._last_held(progress pgqueue.progress)
returns bigint
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
    next record;
    held bigint := progress.cursor;
begin
    if not pgqueue._may_see_locks((select receivers from pgqueue.queue where id = progress.queue_id)) then
        return null;                     -- anybody may call what a view calls
    end if;
    loop
        select max(position) filter (where lock_token is not null) as held
          into next
          from (select position, lock_token
                  from pgqueue.message
                 where queue_id = progress.queue_id and lane = progress.lane and position > held
                 order by position
                 limit 100) as following;
        exit when next.held is null;
        held := next.held;
    end loop;
    return held;
end
$$;
