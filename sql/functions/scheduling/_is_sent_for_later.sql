-- Returns whether a scheduled message, by its lane, was sent for later. One that was delivered and waits for its next
-- delivery lies in a lane of redelivered messages; moved to a queue with sessions, it has only its count of deliveries.
create or replace function pgqueue._is_sent_for_later(lane smallint)
returns boolean
language sql immutable
return lane % 2 <> 0 or lane = 2000;
