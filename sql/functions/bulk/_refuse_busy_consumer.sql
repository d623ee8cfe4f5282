-- Raises  PQ009 consumer in use.
create or replace function pgqueue._refuse_busy_consumer(consumer text)
returns void
language plpgsql
as $$
begin
    raise exception using
        errcode = 'PQ009',
        message = format('consumer %s is in use by another session', quote_literal(consumer)),
        detail  = pgqueue._tracking_detail(),
        hint    = 'Stop the query that works for it, or name another consumer.';
end
$$;
