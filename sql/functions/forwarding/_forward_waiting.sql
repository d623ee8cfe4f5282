-- Forwards messages that wait in a queue which forwards, at most `max_messages`: they were scheduled, or there before the
-- queue forwarded, or their locks have expired since. Deferred ones stay, for the receiver that has deferred them. An expired or
-- exhausted one is removed as a receive would do it.
-- Returns  how many left the queue.
create or replace function pgqueue._forward_waiting(source pgqueue.queue, max_messages integer default 1000)
returns integer
language plpgsql
set enable_sort = off
as $$
declare
    moment timestamptz := pgqueue.clock();
    places tid[];
begin
    places := array(
        select place
          from pgqueue._progress(source.id, source.lanes) as progress
         cross join lateral (
               select ctid as place
                 from pgqueue.message
                where message.queue_id = source.id and message.lane = progress.lane and message.position > progress.cursor
                  and (locked_until is null or locked_until <= moment)
                order by message.position
                limit max_messages
                  for update skip locked) as free
         limit max_messages);
    if places <> '{}' then
        perform pgqueue._expire(source, array(select ctid from pgqueue.message where ctid = any (places) and coalesce(expires_at <= moment, false)));
        perform pgqueue._move_exhausted(source, pgqueue._exhausted(source, places));
        perform pgqueue._try_to_forward(source, array(select ctid from pgqueue.message where ctid = any (places)));
    end if;
    return cardinality(places) - (select count(*) from pgqueue.message where ctid = any (places));
end
$$;
