-- Makes the groups of these messages available to receives at once, because each message frees a slot of its group; does nothing in a queue
-- whose groups have no limits.
create or replace function pgqueue._free_slots_in_groups(queue pgqueue.queue, places tid[])
returns void
language plpgsql
as $$
begin
    if pgqueue._limits_groups(queue) then
        perform pgqueue._announce_sessions(queue.id, array(select session_id from pgqueue.message where ctid = any (places)));
    end if;
end
$$;
