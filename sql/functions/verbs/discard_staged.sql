-- Drops the tables that a job has staged and not published, and those that any job staged at least a week ago. It does
-- not see tables that are still being filled; the next call drops them.
-- Returns  the number of tables dropped.
create or replace function pgqueue.discard_staged(job text default null)
returns integer
language sql
set search_path = pg_catalog, pg_temp
as $$
    select pgqueue._drop_staged(array(
           select name
             from pgqueue.staged_batch
            where staged_batch.job = discard_staged.job or staged_at <= pgqueue.clock() - interval '7 days'
              for update skip locked))
$$;
