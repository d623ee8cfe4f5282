-- Returns the priority of a lane. Each priority has two lanes, and a third one for its deferred messages, from 800 to 1200.
-- Lane 2000 has the messages of sessions, in the order of each session; they have no priority. The numbers of these lanes
-- are even, so that their messages are found by their sequence numbers; no receive scans them.
create or replace function pgqueue._priority(lane smallint)
returns smallint
language sql immutable
return (case when lane < 800 then lane when lane < 2000 then lane - 1000 else 0 end >> 1)::smallint;
