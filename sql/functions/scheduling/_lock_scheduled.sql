-- Locks scheduled messages by their numbers, until the transaction ends; waits for an open transaction that cancels, activates
-- or replaces one. A replacement has the number of the message that it replaced, in another row: it is looked for again.
-- Messages that were abandoned with a delay are locked only for those who may receive from the queue.
-- Returns  the places of those that there are.
create or replace function pgqueue._lock_scheduled(queue pgqueue.queue, sequence_numbers bigint[])
returns tid[]
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    may_receive boolean  := pgqueue._may_receive(queue.receivers);
    wanted      bigint[] := array(
        select distinct number from unnest(sequence_numbers) as number where number is not null order by number);
    places      tid[];
begin
    loop
        places := array(
            select place
              from unnest(wanted) as number
             cross join lateral (
                   select ctid as place
                     from pgqueue.scheduled_message
                    where queue_id = queue.id and sequence_number between number and number
                      and (pgqueue._is_sent_for_later(lane) and delivery_count = 0 or may_receive)
                    order by sequence_number                  -- by the index in that order, whatever the statistics
                      for update) as held);
        exit when cardinality(places) = cardinality(wanted) or not exists (
            select
              from unnest(wanted) as number
             cross join lateral (
                   select ctid as place
                     from pgqueue.scheduled_message
                    where queue_id = queue.id and sequence_number between number and number
                      and (pgqueue._is_sent_for_later(lane) and delivery_count = 0 or may_receive)
                    order by sequence_number) as present
             where place <> all (places));
    end loop;
    return places;
end
$$;
