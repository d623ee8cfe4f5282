-- Refuses to drop a queue that others forward to, and waits for a transaction that is making one do so.
-- Raises  PQ007 invalid argument, naming those queues.
-- Locks   the queue, until the transaction ends.
create or replace function pgqueue._refuse_forwarded(queue text)
returns void
language plpgsql
as $$
declare
    target  integer;
    sources text;
begin
    select id into target from pgqueue.queue where name = _refuse_forwarded.queue for update;
    select string_agg(quote_ident(name), ', ' order by name) into sources
      from pgqueue.queue
     where target in (forward_to, forward_dead_lettered_messages_to);
    if sources is not null then
        perform pgqueue._refuse(
            'PQ007', format('queue %I cannot be dropped: others forward to it: %s', queue, sources),
            'Set their forward_to or forward_dead_lettered_messages_to to another queue or to '''' with pgqueue.alter_queue.');
    end if;
end
$$;
