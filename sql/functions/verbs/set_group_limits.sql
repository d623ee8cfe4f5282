-- Sets the limits of one group of a fair queue, in place of those that the queue has for each group: how many of its messages are
-- handed out at a time, and a second. Null is the queue's limit, 0 is no limit. The limits hold until they are set again.
-- Raises  PQ002 unknown queue, PQ007 invalid argument.
-- Locks   the limits of the group, until the transaction ends: others that set them wait.
create or replace function pgqueue.set_group_limits(
    queue text, group_id text, max_concurrent integer default null, max_receive_rate double precision default null)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    known pgqueue.queue;
begin
    perform pgqueue._check_admin(queue);
    known := pgqueue._find_queue(queue, 'SETTINGS');
    perform pgqueue._refuse_argument(name, must_be, was)
       from (values
            ('the queue', 'one that is fair', quote_ident(queue), known.fair),
            ('group_id', 'a text of 1 to 128 characters', coalesce('one of ' || length(group_id), 'null'),
             coalesce(length(group_id) between 1 and 128, false)),
            ('max_concurrent', 'from 0 to 1000', max_concurrent::text, max_concurrent between 0 and 1000),
            ('max_receive_rate', 'from 0.001 to 10000 messages a second, or 0', max_receive_rate::text,
             max_receive_rate = 0 or max_receive_rate between 0.001 and 10000)) as given (name, must_be, was, is_sane)
      where not is_sane;
    if num_nonnulls(max_concurrent, max_receive_rate) = 0 then
        delete from pgqueue.group_limit as changed where changed.queue_id = known.id and changed.group_id = set_group_limits.group_id;
    else
        insert into pgqueue.group_limit (queue_id, group_id, max_concurrent, max_receive_rate)
        values (known.id, group_id, max_concurrent, max_receive_rate)
            on conflict on constraint group_limit_pkey do update
           set max_concurrent = excluded.max_concurrent, max_receive_rate = excluded.max_receive_rate;
    end if;
    perform pgqueue._announce_sessions(known.id, array[group_id]);
    if known.awaited_until > pgqueue.clock() then
        perform pgqueue._notify(known);
    end if;
end
$$;
