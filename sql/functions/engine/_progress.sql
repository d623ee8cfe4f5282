-- Returns how far the lanes of a queue have been consumed. Each turn gives the row of a lane a new key, so its newest version is
-- the last one in the index, and no scan walks over those before it.
create or replace function pgqueue._progress(queue_id integer, lanes smallint[])
returns setof pgqueue.progress
language sql stable
as $$
    select newest.*
      from unnest(_progress.lanes) as opened (lane)
     cross join lateral (
           select *
             from pgqueue.progress
            where progress.queue_id = _progress.queue_id and progress.lane = opened.lane
            order by turn desc
            limit 1) as newest
$$;
