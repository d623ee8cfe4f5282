-- Raises  PQ005 message too large, naming the message, its size and the limit.
create or replace function pgqueue._refuse_size(target pgqueue.queue, message text, size bigint)
returns void
language plpgsql
as $$
begin
    raise exception using
        errcode = 'PQ005',
        message = format('%s has %s bytes, and queue %I takes at most %s', message, size, target.name, target.max_message_size),
        detail  = pgqueue._tracking_detail(),
        hint    = 'Body and application properties count. Send a reference instead, or raise max_message_size.';
end
$$;
