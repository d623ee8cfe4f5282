-- Returns the queue with this name, which must require sessions, to a caller who may receive from it.
-- Raises   PQ002 unknown queue, PQ007 invalid argument, 42501 access denied.
create or replace function pgqueue._find_session_queue(name text)
returns pgqueue.queue
language plpgsql
as $$
declare
    source pgqueue.queue := pgqueue._find_queue(name, 'RECEIVE');
begin
    if not source.requires_session then
        perform pgqueue._refuse(
            'PQ007', format('queue %I does not require sessions: receive from it with receive', source.name));
    end if;
    return source;
end
$$;
