-- Refuses a verb on a queue whose status forbids it.
-- Raises  PQ004 queue disabled.
create or replace function pgqueue._refuse_disabled(queue pgqueue.queue)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = 'PQ004',
        message = format('queue %I has the status %s', queue.name, queue.status),
        hint    = 'Set its status to ACTIVE with pgqueue.alter_queue.';
end
$$;
