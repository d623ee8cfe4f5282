-- Returns how many rows are read to count all messages from the cursors on, where that is less than the pages of their tables,
-- because most of what is there has died; null elsewhere, and where the counts that PostgreSQL keeps do not account for the pages:
-- they are lost in a crash.
create or replace function pgqueue._rows_to_count()
returns bigint
language sql stable
as $$
    select case when living < pages and living + dead >= pages then living end
      from (select sum(pg_stat_get_live_tuples(kept)) + 10 * (select count(*) from pgqueue.queue) as living,
                   sum(pg_stat_get_dead_tuples(kept)) as dead,
                   sum(pg_relation_size(kept)) / current_setting('block_size')::bigint as pages
              from unnest(array['pgqueue.message', 'pgqueue.scheduled_message']::regclass[]) as kept) as known
$$;
