-- Returns the first due time of a schedule with an interval that lies after a time; null when there is none before the
-- schedule ends.
create or replace function pgqueue._interval_after(known pgqueue.schedule, since timestamptz)
returns timestamptz
language sql stable
as $$
    select due
      from (select known.starts_at + known.every * (
                   greatest(floor(extract(epoch from since - known.starts_at) / extract(epoch from known.every)) + 1, 0)
                   )::double precision) as following (due)
     where due <= known.ends_at or known.ends_at is null;
$$;
