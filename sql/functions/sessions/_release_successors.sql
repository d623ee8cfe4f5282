-- Lets the messages of these sessions, or groups, be received that waited behind one which has left its queue. Without sessions it
-- does nothing.
create or replace function pgqueue._release_successors(queue pgqueue.queue, session_ids text[])
returns void
language plpgsql
as $$
begin
    if session_ids <> '{}' then
        if queue.fair then
            perform pgqueue._announce_sessions(queue.id, session_ids);
        else
            perform pgqueue._hasten_sessions(queue.id, session_ids);
        end if;
        if queue.awaited_until > pgqueue.clock() then
            perform pgqueue._notify(queue);
        end if;
    end if;
end
$$;
