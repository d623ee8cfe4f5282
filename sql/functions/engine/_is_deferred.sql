-- Returns whether a lane is one of deferred messages; see pgqueue._priority. The condition on even lanes lets the planner
-- use the index of their sequence numbers.
create or replace function pgqueue._is_deferred(lane smallint)
returns boolean
language sql immutable
return lane % 2 = 0 and lane between 800 and 1200;
