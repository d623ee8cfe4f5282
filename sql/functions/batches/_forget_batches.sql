-- Deletes batches that were finished a day ago, at most `max_records`; with `dry_run` they are only counted.
-- Returns  how many.
create or replace function pgqueue._forget_batches(max_records integer, dry_run boolean)
returns integer
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    moment timestamptz := pgqueue.clock();
    old    uuid[]      := array(
        select id
          from pgqueue.batch
         where finished_at < moment - interval '1 day'
         order by finished_at
         limit max_records);
begin
    if not dry_run then
        delete from pgqueue.batch_stripe where batch_id = any (old);
        delete from pgqueue.batch where id = any (old);
    end if;
    return cardinality(old);
end
$$;
