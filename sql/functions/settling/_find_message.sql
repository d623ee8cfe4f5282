-- Returns where a message that is not scheduled is, fresh or not, by its number; no row is locked.
create or replace function pgqueue._find_message(queue pgqueue.queue, number bigint)
returns tid[]
language sql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
    select array(
        select ctid
          from pgqueue.message
         where queue_id = (queue).id and lane = any ((queue).fresh_lanes) and position = number
         union all
       (select ctid
          from pgqueue.message
         where queue_id = (queue).id and lane % 2 = 0 and sequence_number between number and number
         order by sequence_number));                     -- by the index in that order, whatever the statistics
$$;
