-- Returns those of these messages that this transaction has stored and no receiver has: in the queue that they were sent to, or in the one
-- to which that queue forwards.
create or replace function pgqueue._find_sent(queue pgqueue.queue, numbers bigint[])
returns table (queue_id integer, number bigint)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    whole xid       := pg_current_xact_id()::xid;
    ids   integer[] := array[queue.id];
begin
    while queue.forward_to is not null and cardinality(ids) <= 4 loop
        select known.* into queue from pgqueue.queue as known where known.id = queue.forward_to;
        ids := ids || queue.id;
    end loop;
    return query
        select found.queue_id, given.number
          from (select distinct number from unnest(numbers) as number where number is not null) as given
         cross join lateral (
               select message.queue_id
                 from pgqueue.queue as way
                cross join lateral (
                      select queue_id, xmin
                        from pgqueue.message
                       where queue_id = way.id and lane = any (way.fresh_lanes) and position = given.number and lock_token is null
                       union all
                     (select queue_id, xmin
                        from pgqueue.message
                       where queue_id = way.id and lane % 2 = 0 and lock_token is null
                         and sequence_number between given.number and given.number
                       order by sequence_number)              -- by the index in that order, whatever the statistics
                       union all
                     (select queue_id, xmin
                        from pgqueue.scheduled_message
                       where queue_id = way.id and sequence_number between given.number and given.number
                       order by sequence_number)) as message
                where way.id = any (ids) and (message.xmin = whole or pgqueue._is_of_savepoint(message.xmin))
                limit 1) as found;
end
$$;
