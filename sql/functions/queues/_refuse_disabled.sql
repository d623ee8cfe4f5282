-- Refuses a verb on a queue whose status forbids it.
-- Raises  PQ004 queue disabled.
create or replace function pgqueue._refuse_disabled(queue pgqueue.queue)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse(
        'PQ004', format('queue %I has the status %s', queue.name, queue.status),
        'Set its status to ACTIVE with pgqueue.alter_queue.');
end
$$;
