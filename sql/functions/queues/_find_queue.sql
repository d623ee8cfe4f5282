-- Returns the queue with this name. The busiest verbs look it up themselves, which is cheaper than a call.
-- Raises   PQ002 unknown queue.
create or replace function pgqueue._find_queue(name text)
returns pgqueue.queue
language plpgsql stable
as $$
#variable_conflict use_column
declare
    known pgqueue.queue;
begin
    select * into known from pgqueue.queue where name = _find_queue.name;
    if not found then
        perform pgqueue._refuse_unknown_queue(_find_queue.name);
    end if;
    return known;
end
$$;
