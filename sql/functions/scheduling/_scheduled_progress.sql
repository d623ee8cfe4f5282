-- Returns from where on what becomes due in a queue is looked for, by kind: each MESSAGE that is scheduled, each message on the
-- WATCH list and each SESSION that waits. The newest version of a row is the last one in the index; see pgqueue._progress.
create or replace function pgqueue._scheduled_progress(queue_id integer)
returns setof pgqueue.scheduled_progress
language sql stable
as $$
    select newest.*
      from unnest('{MESSAGE,WATCH,SESSION}'::text[]) as known (kind)
     cross join lateral (
           select *
             from pgqueue.scheduled_progress
            where scheduled_progress.queue_id = _scheduled_progress.queue_id and scheduled_progress.kind = known.kind
            order by turn desc
            limit 1) as newest
$$;
