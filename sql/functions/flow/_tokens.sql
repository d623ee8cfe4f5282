-- Returns how many tokens a bucket of messages at this rate holds: each message takes one, and a second brings
-- as many as the rate allows. It holds a second's worth at most, and at least one. A bucket that would be full only after it
-- could have been filled twice is full: the clock went back, or the rate was raised.
create or replace function pgqueue._tokens(rate double precision, full_at timestamptz, moment timestamptz)
returns double precision
language plpgsql immutable
as $$
declare
    burst double precision := greatest(rate, 1);
    owed  double precision := rate * extract(epoch from greatest(full_at, moment) - moment);
begin
    return case when owed > 2 * burst then burst else burst - owed end;
end
$$;
