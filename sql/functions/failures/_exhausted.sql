-- Returns which of these messages, whose delivery has ended, were delivered as often as their queue allows: they are
-- dead-lettered, not delivered again. An expired message is none of them: the next receive or sweep removes it.
create or replace function pgqueue._exhausted(queue pgqueue.queue, places tid[])
returns tid[]
language sql
as $$
    select array(
        select ctid
          from pgqueue.message
         where ctid = any (places) and delivery_count >= (queue).max_delivery_count
           and (expires_at is null or expires_at > pgqueue.clock()));
$$;
