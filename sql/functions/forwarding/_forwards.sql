-- Returns whether a queue forwards messages or dead letters to another, directly or through others, or is that queue.
create or replace function pgqueue._forwards(queue_id integer, to_queue_id integer)
returns boolean
language sql
as $$
    with recursive reached (id) as (
        select queue_id
         union
        select target.id
          from reached
          join pgqueue.queue using (id)
         cross join lateral (values (forward_to), (forward_dead_lettered_messages_to)) as target (id)
         where target.id is not null)
    select to_queue_id in (select id from reached);
$$;
