-- The priority that a lane belongs to. Two lanes each, and in a range of its own, above 800, one more for its deferred
-- messages: even, so that they are found by their numbers, and never among those that a receive scans.
create or replace function pgqueue._priority(lane smallint)
returns smallint
language sql immutable
return (case when lane < 800 then lane else lane - 1000 end >> 1)::smallint;
