-- Drops the tables that a job has staged and not published, for queues that the caller may send to, and those that any
-- job staged at least a week ago. It does not see tables that are still being filled; the next call drops them.
-- Returns  the number of tables dropped.
create or replace function pgqueue.discard_staged(job text default null)
returns integer
language sql
security definer set search_path = pg_catalog, pg_temp
as $$
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    select pgqueue._drop_staged(array(
           select staged_batch.name
             from pgqueue.staged_batch
             left join pgqueue.queue on queue.id = queue_id                   -- it may be gone
            where staged_batch.job = discard_staged.job and (queue.id is null or pgqueue._may_send(senders))
               or staged_at <= pgqueue.clock() - interval '7 days'
              for update of staged_batch skip locked))
$$;
