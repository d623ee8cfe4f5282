-- Returns whether a message at this place is locked or deferred, or will be delivered, or a transaction holds it after its lock has
-- expired: its handler has pinned it. An older snapshot may show one that is settled by now: then its row is locked, which fails
-- if it is gone.
-- Raises   40001 serialization failure.
-- Locks    the row of a message that will not be delivered, until the transaction ends; skips it where others hold it.
create or replace function pgqueue._is_unsettled(known pgqueue.queue, place tid, number bigint)
returns boolean
language plpgsql
as $$
declare
    is_late boolean;
begin
    perform
       from pgqueue.message
      where ctid = place and sequence_number = number
        and (pgqueue._is_deferred(lane)
             or coalesce(locked_until > pgqueue.clock(), false)
             or known.requires_session and pgqueue._is_held_in_session(message)
             or delivery_count < known.max_delivery_count and coalesce(expires_at > pgqueue.clock(), true));
    if found = (current_setting('transaction_isolation') = 'read committed') then
        return found;
    end if;
    is_late := not found;
    perform from pgqueue.message where ctid = place and sequence_number = number for key share skip locked;
    if is_late then
        return not found and exists (
            select from pgqueue.message where ctid = place and sequence_number = number and lock_token is not null);
    end if;
    return found;
end
$$;
