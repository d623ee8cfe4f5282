-- Returns whether a message at this place is locked or deferred, or will be delivered. An older snapshot may show one that is settled
-- by now: then its row is locked, which fails if it is gone.
-- Raises   40001 serialization failure.
create or replace function pgqueue._is_unsettled(known pgqueue.queue, place tid, number bigint)
returns boolean
language plpgsql
as $$
begin
    perform
       from pgqueue.message
      where ctid = place and sequence_number = number
        and (pgqueue._is_deferred(lane)
             or coalesce(locked_until > pgqueue.clock(), false)
             or known.requires_session and pgqueue._is_held_in_session(message)
             or delivery_count < known.max_delivery_count and coalesce(expires_at > pgqueue.clock(), true));
    if found and current_setting('transaction_isolation') <> 'read committed' then
        perform from pgqueue.message where ctid = place and sequence_number = number for key share skip locked;
    end if;
    return found;
end
$$;
