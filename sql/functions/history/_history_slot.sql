-- The partition of the history that a time belongs to: one a day, 64 in a ring.
create or replace function pgqueue._history_slot(moment timestamptz)
returns smallint
language sql immutable
return (extract(epoch from moment)::bigint / 86400 % 64)::smallint;
