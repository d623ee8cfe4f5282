-- Raises  PQ002 unknown consumer.
create or replace function pgqueue._refuse_unknown_consumer(consumer text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = 'PQ002',
        message = format('consumer %s does not exist', coalesce(quote_literal(consumer), 'null')),
        hint    = 'pgqueue.attach_consumer makes it; those there are stand in pgqueue.consumers.';
end
$$;
