-- Returns whether a receive might find a message that is not newer than `up_to`; true when `up_to` is null.
create or replace function pgqueue._has_waiting(queue pgqueue.queue, up_to bigint)
returns boolean
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
begin
    if up_to is null then
        return true;
    end if;
    perform pgqueue.take_turn(queue.name);
    return exists (
        select
          from pgqueue._progress(queue.id, queue.lanes) as progress
         cross join lateral (
               select
                 from pgqueue.message
                where message.queue_id = progress.queue_id and message.lane = progress.lane
                  and position > cursor and (position <= up_to or message.lane % 2 = 0)
                  and sequence_number <= up_to and (locked_until is null or locked_until <= moment)
                limit 1) as waiting);
end
$$;
