-- Refuses a verb on a queue whose status forbids it.
-- Raises  PQ004 queue disabled.
create or replace function pgqueue._refuse_disabled(queue pgqueue.queue)
returns void
language plpgsql
as $$
begin
    raise exception using
        errcode = 'PQ004',
        message = format('queue %I has the status %s', queue.name, queue.status),
        detail  = pgqueue._tracking_detail(),
        hint    = 'Set its status to ACTIVE with pgqueue.alter_queue.';
end
$$;
