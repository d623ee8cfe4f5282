-- Returns  the sessions of messages in a queue that requires sessions, or their groups where these have limits; null in any other.
create or replace function pgqueue._sessions_of(queue pgqueue.queue, places tid[])
returns text[]
language plpgsql stable
as $$
begin
    if queue.requires_session or pgqueue._limits_groups(queue) then
        return array(select distinct session_id from pgqueue.message where ctid = any (places));
    end if;
    return null;
end
$$;
