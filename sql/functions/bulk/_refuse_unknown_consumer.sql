-- Raises  PQ002 unknown consumer.
create or replace function pgqueue._refuse_unknown_consumer(consumer text)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse(
        'PQ002', format('consumer %s does not exist', coalesce(quote_literal(consumer), 'null')),
        'Create it with pgqueue.attach_consumer, or list the consumers in pgqueue.consumers.');
end
$$;
