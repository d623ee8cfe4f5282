-- Returns  the messages and the scheduled messages at these places, as messages.
create or replace function pgqueue._messages_at(places tid[], scheduled tid[])
returns setof pgqueue.message
language sql stable
as $$
    select * from pgqueue.message where ctid = any (places)
     union all
    select found.*
      from pgqueue.scheduled_message as known
     cross join lateral pgqueue._scheduled_as_message(known) as found
     where known.ctid = any (scheduled);
$$;
