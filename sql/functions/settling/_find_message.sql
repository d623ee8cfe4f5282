-- Returns where a message that is not scheduled is, fresh or not, by its number; no row is locked. The lanes are read again: a caller that
-- has waited since it read the queue may look for a message of a lane that was made meanwhile.
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
         where queue_id = (queue).id and position = number
           and lane = any ((select fresh_lanes from pgqueue.queue as known where known.id = (queue).id)::smallint[])
         union all
       (select ctid
          from pgqueue.message
         where queue_id = (queue).id and lane % 2 = 0 and sequence_number between number and number
         order by sequence_number));                     -- by the index in that order, whatever the statistics
$$;
