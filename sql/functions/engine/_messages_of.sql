-- Returns the messages of a queue that are not scheduled, by lane and position: in the order of delivery, the deferred ones and
-- those of sessions last. See pgqueue._lane_messages.
create or replace function pgqueue._messages_of(queue_id integer)
returns setof pgqueue.message
language sql stable
begin atomic
    select found.*
      from (select * from pgqueue.progress where progress.queue_id = _messages_of.queue_id order by lane) as progress
     cross join lateral pgqueue._lane_messages(progress, 0) as found
     union all
    select deferred.*
      from pgqueue._deferred_messages(_messages_of.queue_id) as deferred
     union all
   (select *
      from pgqueue.message
     where message.queue_id = _messages_of.queue_id and message.lane = 2000
     order by message.position
     limit (select null::bigint));                            -- no limit, but the planner takes the order from the index
end;
