-- Returns the priority of a lane. Each priority has two lanes, and a third one for its deferred messages, in a range
-- above 800. The number of that lane is even, so that its messages are found by their sequence numbers; no receive
-- scans it.
create or replace function pgqueue._priority(lane smallint)
returns smallint
language sql immutable
return (case when lane < 800 then lane else lane - 1000 end >> 1)::smallint;
