-- Returns  the state of a message that is neither scheduled nor dead, as pgqueue.messages shows it. `is_held` is
--          whether the holder of its session has it. A plain expression, so that it is inlined.
create or replace function pgqueue._state_of(
    queue pgqueue.queue, is_held boolean, lock_token uuid, locked_until timestamptz, expires_at timestamptz, delivery_count integer,
    lane smallint, moment timestamptz)
returns text
language sql immutable
return case when is_held then 'LOCKED'
            when locked_until > moment and (not (queue).requires_session or lock_token is null) then 'LOCKED'
            when expires_at <= moment then 'EXPIRED'
            when delivery_count >= (queue).max_delivery_count then 'EXHAUSTED'
            when pgqueue._is_deferred(lane) then 'DEFERRED'
            else 'READY' end;
