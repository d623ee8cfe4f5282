-- Asks for a NOTIFY when messages arrive in these queues within the given time; null ends the subscription. Queues
-- whose rows somebody is changing are skipped this time, as are those that the caller may not receive from.
-- Returns  the channels to listen on, and the names of the queues that notify on each.
create or replace function pgqueue._subscribe(queues text[], lasts interval)
returns table (channel text, queue text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    return query
        update pgqueue.queue
           set awaited_until = pgqueue.clock() + lasts
         where id = any (array(
                   select id
                     from pgqueue.queue
                    where name = any (queues) and pgqueue._may_receive(receivers)
                    order by id
                      for update skip locked))
        returning 'pgqueue_' || (hashtext(name) & 15), name;
end
$$;
