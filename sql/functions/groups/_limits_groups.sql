-- Returns whether the groups of a queue have limits: those of the queue, or limits of their own.
create or replace function pgqueue._limits_groups(queue pgqueue.queue)
returns boolean
language plpgsql stable
as $$
begin
    return queue.fair and (num_nonnulls(queue.max_concurrent_per_group, queue.max_receive_rate_per_group) > 0
                           or exists (select from pgqueue.group_limit where queue_id = queue.id));
end
$$;
