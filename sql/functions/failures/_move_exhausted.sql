-- Dead-letters messages that were delivered as often as their queue allows, whose rows are locked. The description states
-- how the last delivery `ended`, by default that its lock has expired, and what the last error was.
create or replace function pgqueue._move_exhausted(queue pgqueue.queue, places tid[], ended text default null)
returns void
language plpgsql
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    spent record;
begin
    for spent in
        select message.ctid as place, delivery_count, lock_token, locked_by, last_error,
               (last_error -> 'delivery_count')::integer as failed
          from pgqueue.message
          left join lateral (                                 -- one by one: a join may read both tables through
               select last_error
                 from pgqueue.failed_message as known
                where known.queue_id = message.queue_id and known.sequence_number = message.sequence_number
                limit 1) as errors on true
         where message.ctid = any (places)
    loop
        perform pgqueue._move_to_dead_letters(
            queue, array[spent.place], 'MaxDeliveryCountExceeded',
            concat_ws('; ',
                format('the queue allows %s deliveries', queue.max_delivery_count),
                case when spent.failed = spent.delivery_count then null
                     when ended is not null then format('delivery %s %s', spent.delivery_count, ended)
                     when spent.lock_token is not null
                     then format('the lock of delivery %s, held by %s, expired', spent.delivery_count, spent.locked_by) end,
                format('delivery %s failed with ', spent.failed) || pgqueue._error_line(spent.last_error)));
    end loop;
end
$$;
