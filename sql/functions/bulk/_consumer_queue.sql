-- Returns the queue of a consumer.
-- Raises   PQ002 unknown queue, when it was dropped.
create or replace function pgqueue._consumer_queue(consumer pgqueue.consumer)
returns pgqueue.queue
language plpgsql stable
as $$
declare
    source pgqueue.queue;
begin
    select * into source from pgqueue.queue where id = consumer.queue_id;
    if not found then
        perform pgqueue._refuse(
            'PQ002', format('the queue of consumer %s was dropped', quote_literal(consumer.name)),
            'Drop the consumer with pgqueue.drop_consumer, and name it again for another queue.');
    end if;
    return source;
end
$$;
