-- Creates the two lanes of a priority, when it is used in a queue for the first time. Lanes of others are not for messages that wait.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._create_lanes(queue_id integer, priority integer)
returns void
language sql
as $$
    select pgqueue._refuse_argument('priority', 'a whole number from -100 to 100', priority::text) where priority not between -100 and 100;
    update pgqueue.queue
       set lanes = array(
               select distinct lane from unnest(lanes || array[2 * priority, 2 * priority + 1]::smallint[]) as lane order by lane),
           fresh_lanes = array(
               select distinct lane from unnest(fresh_lanes || (2 * priority + 1)::smallint) as lane order by lane)
     where id = queue_id;
    insert into pgqueue.progress (queue_id, lane)
    select _create_lanes.queue_id, opened
      from unnest(array[2 * priority, 2 * priority + 1]::smallint[]) as opened
     where not exists (select from pgqueue.progress where progress.queue_id = _create_lanes.queue_id and lane = opened);
$$;
