-- Raises  PQ005 message too large, naming the message, its size and the limit.
create or replace function pgqueue._refuse_size(target pgqueue.queue, message text, size bigint)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse(
        'PQ005', format('%s has %s bytes, and queue %I takes at most %s', message, size, target.name, target.max_message_size),
        'Body and application properties count. Send a reference instead, or raise max_message_size.');
end
$$;
