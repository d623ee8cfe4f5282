-- Returns the number of the history partition for a time: one partition per day, reused after 64 days.
create or replace function pgqueue._history_slot(moment timestamptz)
returns smallint
language sql immutable
return (extract(epoch from moment)::bigint / 86400 % 64)::smallint;
