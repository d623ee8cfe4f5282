-- Refuses to receive from a queue that forwards: what arrives there is in another queue.
-- Raises  PQ007 invalid argument, naming that queue.
create or replace function pgqueue._refuse_receive(source pgqueue.queue)
returns void
language plpgsql
as $$
declare
    target text := (select name from pgqueue.queue where id = source.forward_to);
begin
    perform pgqueue._refuse(
        'PQ007', format('queue %I forwards its messages to queue %I: receive from there', source.name, target),
        'Or end the forwarding: set its forward_to to '''' with pgqueue.alter_queue.');
end
$$;
