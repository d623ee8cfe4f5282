-- Raises  PQ009 consumer in use.
create or replace function pgqueue._refuse_busy_consumer(consumer text)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse(
        'PQ009', format('consumer %s is in use by another session', quote_literal(consumer)),
        'Stop the query that works for it, or name another consumer.');
end
$$;
