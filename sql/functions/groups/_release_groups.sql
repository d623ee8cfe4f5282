-- Makes the groups of these messages available to receives at once, because their locks end in this transaction; does nothing in a queue
-- without groups.
create or replace function pgqueue._release_groups(queue pgqueue.queue, places tid[])
returns void
language plpgsql
as $$
begin
    if queue.fair then
        perform pgqueue._announce_sessions(queue.id, array(select session_id from pgqueue.message where ctid = any (places)));
    end if;
end
$$;
