-- Raises  PQ002 unknown queue.
create or replace function pgqueue._refuse_unknown_queue(queue text)
returns void
language plpgsql
as $$
begin
    raise exception using
        errcode = 'PQ002',
        message = format('queue %s does not exist', coalesce(quote_ident(queue), 'null')),
        hint    = 'Create it with pgqueue.create_queue, or list what exists in pgqueue.queues.';
end
$$;
