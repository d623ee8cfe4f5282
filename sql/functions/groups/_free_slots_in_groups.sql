-- Lets the groups of these messages be received from at once, because each leaves a slot of its group; where groups have no limits
-- it does nothing.
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
