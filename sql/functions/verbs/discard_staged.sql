-- Drops what a job has staged and not published, and what any job has abandoned for a week. Tables that somebody is
-- still copying into are not seen here; they are dropped the next time.
-- Returns  how many tables.
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
