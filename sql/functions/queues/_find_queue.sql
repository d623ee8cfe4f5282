-- Returns the queue with this name, to a caller who may do what is `needed`; see pgqueue._permits. The busiest verbs look it
-- up themselves, which is cheaper than a call.
-- Raises   PQ002 unknown queue, 42501 access denied.
create or replace function pgqueue._find_queue(name text, needed text)
returns pgqueue.queue
language plpgsql
as $$
#variable_conflict use_column
declare
    known pgqueue.queue;
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    select * into known from pgqueue.queue where name = _find_queue.name;
    if not found then
        perform pgqueue._refuse_unknown_queue(_find_queue.name);
    end if;
    if needed <> 'RECEIVE' or not pgqueue._may_receive(known.receivers) then      -- most often enough, and sooner evaluated
        if not pgqueue._permits(needed, known) then
            perform pgqueue._refuse_access(needed, known.name);
        end if;
    end if;
    return known;
end
$$;
