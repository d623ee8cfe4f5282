-- Raises  PQ007 invalid argument, for a receive without a session from a queue that requires sessions.
create or replace function pgqueue._refuse_without_session(queue pgqueue.queue)
returns void
language plpgsql
as $$
begin
    perform pgqueue._refuse(
        'PQ007', format('queue %I requires sessions: accept one with accept_session, and receive its messages from it', queue.name));
end
$$;
