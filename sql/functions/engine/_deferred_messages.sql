-- Returns the deferred messages of a queue, by lane and position. A plain query, so that it is inlined.
create or replace function pgqueue._deferred_messages(queue_id integer)
returns setof pgqueue.message
language sql stable
begin atomic
    select *
      from pgqueue.message
     where message.queue_id = _deferred_messages.queue_id and message.lane between 800 and 1200
     order by message.lane, message.position
     limit (select null::bigint);                             -- no limit, but the planner takes the order from the index
end;
