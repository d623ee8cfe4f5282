-- Records that a sweep has removed what was to be removed from a queue, but for the last minute: transactions that were open may have
-- written what was due then. An expired message that is held is looked for again.
create or replace function pgqueue._record_sweep(queue pgqueue.queue, since timestamptz)
returns void
language plpgsql
set enable_sort = off
as $$
declare
    moment  timestamptz := pgqueue.clock();
    removed timestamptz := least(
        moment - interval '1 minute',
        (select expires_at
           from pgqueue.message
          where queue_id = queue.id and expires_at >= since
          order by expires_at
          limit 1));
begin
    insert into pgqueue.sweep_progress as known (queue_id, looked_over_at, removed_until)
    values (queue.id, moment, removed)
        on conflict on constraint sweep_progress_pkey do update
       set looked_over_at = case when since = '-infinity' then moment else known.looked_over_at end,
           removed_until  = removed;
end
$$;
