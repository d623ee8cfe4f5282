-- Removes messages that have expired `since` a time from their queue, at most `max_messages`, the earliest first. A locked message
-- does not expire.
-- Returns  how many were removed.
create or replace function pgqueue._expire_due(queue pgqueue.queue, max_messages integer, since timestamptz default '-infinity')
returns integer
language plpgsql
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
    places tid[];
begin
    places := array(
        select ctid
          from pgqueue.message
         where queue_id = queue.id and expires_at >= since and expires_at <= moment and (locked_until is null or locked_until <= moment)
           and not (queue.requires_session and pgqueue._is_held_in_session(message))
         order by expires_at
         limit max_messages
           for update skip locked);
    if places <> '{}' then
        perform pgqueue._expire(queue, places);
    end if;
    return cardinality(places);
end
$$;
