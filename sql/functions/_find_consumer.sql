-- A consumer, its row locked until the transaction ends.
-- Raises  PQ002 unknown consumer.
create or replace function pgqueue._find_consumer(name text)
returns pgqueue.consumer
language plpgsql
as $$
declare
    known pgqueue.consumer;
begin
    select * into known from pgqueue.consumer where consumer.name = _find_consumer.name for update;
    if not found then
        raise exception using
            errcode = 'PQ002',
            message = format('consumer %s does not exist', coalesce(quote_literal(_find_consumer.name), 'null')),
            hint    = 'pgqueue.attach_consumer makes it; those there are stand in pgqueue.consumers.';
    end if;
    return known;
end
$$;
