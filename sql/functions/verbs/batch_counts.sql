-- Counts the members of a batch: those that are pending, and those that were completed, dead-lettered, or deleted in another way.
-- Returns  one row. `sequence_number` and `on_failure` are the numbers of the final messages in `queue`; the queue is null when it was
--          dropped.
-- Raises   PQ050 batch not found.
create or replace function pgqueue.batch_counts(batch uuid)
returns table (
    total bigint, pending bigint, completed bigint, dead_lettered bigint, deleted bigint, queue text, sequence_number bigint,
    on_failure bigint, created_at timestamptz, closed_at timestamptz, finished_at timestamptz)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    return query
        select counted.*, (select name from pgqueue.queue where id = queue_id), sequence_number, failure_number,
               created_at, closed_at, finished_at
          from pgqueue.batch as known
         cross join lateral (
               select sum(pending + completed + dead_lettered + deleted)::bigint, sum(pending)::bigint, sum(completed)::bigint,
                      sum(dead_lettered)::bigint, sum(deleted)::bigint
                 from pgqueue.batch_stripe
                where batch_id = known.id) as counted
         where id = batch_counts.batch;
    if not found then
        perform pgqueue._refuse_unknown_batch(batch);
    end if;
end
$$;
