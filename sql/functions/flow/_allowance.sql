-- Returns how many messages a queue that is paused or has limits may hand out now, at most `wanted`: none while it is paused,
-- as many as there are tokens with `max_receive_rate`, and as many as there are free slots with `max_concurrent`. A
-- receive records what it hands out with pgqueue._hand_out, in the same transaction.
-- Returns  0 also when the transaction of another receive is still open after a tenth of a second.
-- Locks    the row of the queue's limits, until the transaction ends: receives of the queue follow each other. The row is
--          never rewritten: locked in a subtransaction and then updated, it would take a multixact id each time.
create or replace function pgqueue._allowance(queue pgqueue.queue, wanted integer)
returns integer
language plpgsql
set lock_timeout = '100ms'
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    free integer;
begin
    if queue.paused_at is not null then
        return 0;
    end if;
    begin
        perform from pgqueue.flow where queue_id = queue.id for no key update;
    exception when lock_not_available then
        return 0;
    end;
    if queue.max_receive_rate is not null then
        -- times are rounded up to a microsecond, which is not waited for
        wanted := least(wanted, floor(
            pgqueue._tokens(queue.max_receive_rate, pgqueue._full_at(queue.id), pgqueue.clock()) + queue.max_receive_rate / 1000000));
    end if;
    if queue.max_concurrent is not null and wanted > 0 then
        free := queue.max_concurrent - (select count(*) from pgqueue._slots(queue.id));
        if free < wanted then
            free := queue.max_concurrent - pgqueue._slots_taken(queue);
        end if;
        wanted := least(wanted, free);
    end if;
    return greatest(wanted, 0);
end
$$;
