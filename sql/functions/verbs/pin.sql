-- Locks the row of a locked message before any work is done for it. Until the transaction ends, the message is not
-- delivered again, even when `locked_until` passes, because receives skip locked rows.
-- Raises  PQ001 lock lost, PQ002 unknown queue.
-- Locks   the message, until the transaction ends.
create or replace function pgqueue.pin(queue text, sequence_number bigint, lock_token uuid)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    perform from pgqueue.message         -- fast path: a fresh message of priority 0
      where queue_id = (select id from pgqueue.queue where name = pin.queue and pgqueue._may_receive(receivers))
        and lane = 1 and position = pin.sequence_number and lock_token = pin.lock_token
        for update;
    if found then
        return;
    end if;
    if pgqueue._is_dead_letter_queue(queue) then
        perform pgqueue._settle_dead_letters('PIN', queue, array[pin.sequence_number], array[pin.lock_token], atomic => true);
    else
        perform pgqueue._pin(pgqueue._find_queue(queue, 'RECEIVE'), pin.sequence_number, pin.lock_token);
    end if;
end
$$;
