-- Raises  PQ002 unknown consumer.
create or replace function pgqueue._refuse_unknown_consumer(consumer text)
returns void
language plpgsql
as $$
begin
    raise exception using
        errcode = 'PQ002',
        message = format('consumer %s does not exist', coalesce(quote_literal(consumer), 'null')),
        detail  = pgqueue._tracking_detail(),
        hint    = 'Create it with pgqueue.attach_consumer, or list the consumers in pgqueue.consumers.';
end
$$;
