-- Deletes entries of the audit log that are a year old, the oldest first, at most `max_records`; with `dry_run` they are only
-- counted.
-- Returns  how many.
create or replace function pgqueue._forget_actions(max_records integer, dry_run boolean)
returns integer
language plpgsql
as $$
declare
    moment timestamptz := pgqueue.clock();
    old    bigint[]    := array(
        select id
          from (select id, acted_at from pgqueue.audited_action order by id limit max_records) as oldest
         where acted_at < moment - interval '1 year');
begin
    if not dry_run then
        delete from pgqueue.audited_action where id = any (old);
    end if;
    return cardinality(old);
end
$$;
