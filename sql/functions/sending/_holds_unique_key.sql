-- Returns whether a message still holds its unique key: while it waits, or with the scope 'unsettled' also while it is locked or deferred. As
-- with settlements the token decides, not the clock: a message whose lock has expired may still be completed by its holder, so it
-- does not wait. Neither does one that the next receive deletes or dead-letters, nor one in the hands of another transaction.
-- Locks    a message that waits, until the transaction ends: so it is not received before what the sender has written besides
--          is committed. Waits for a transaction that cancels or activates a scheduled message.
create or replace function pgqueue._holds_unique_key(queue_id integer, number bigint, unique_scope text)
returns boolean
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    known pgqueue.queue;
    place tid;
begin
    select * into known from pgqueue.queue where id = _holds_unique_key.queue_id;
    for attempt in 1 .. 3 loop                               -- it may be activated, or change its lane, between two looks
        place := (pgqueue._find_message(known, number))[1];
        if place is not null then
            perform
               from pgqueue.message
              where ctid = place and sequence_number = number and lock_token is null and not pgqueue._is_deferred(lane)
                and coalesce(expires_at > pgqueue.clock(), true) and delivery_count < known.max_delivery_count
                for update skip locked;
            if found then
                return true;
            elsif unique_scope = 'unsettled' and pgqueue._is_unsettled(known, place, number) then
                return true;
            elsif exists (select from pgqueue.message where ctid = place and sequence_number = number) then
                return false;
            end if;
        else
            perform
               from pgqueue.scheduled_message
              where queue_id = _holds_unique_key.queue_id and sequence_number between number and number
                and (unique_scope = 'unsettled' or not pgqueue._is_deferred(lane))
                and coalesce(expires_at > pgqueue.clock(), true)
              order by sequence_number                       -- by the index in that order, whatever the statistics
                for update;
            if found then
                return true;
            end if;
        end if;
    end loop;
    return false;
end
$$;
