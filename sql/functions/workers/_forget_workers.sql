-- Removes workers that were not seen for an hour: they were killed, or cannot reach the database. So it does with those
-- that were seen when the clock was an hour ahead. With `dry_run` they are only counted.
-- Returns  how many.
create or replace function pgqueue._forget_workers(dry_run boolean)
returns integer
language plpgsql
as $$
#variable_conflict use_column
declare
    moment  timestamptz := pgqueue.clock();
    expired tid[]       := array(
        select ctid from pgqueue.worker where seen_at not between moment - interval '1 hour' and moment + interval '1 hour');
begin
    if not dry_run then
        expired := array(select ctid from pgqueue.worker where ctid = any (expired) for update skip locked);
        delete from pgqueue.worker where ctid = any (expired);
    end if;
    return cardinality(expired);
end
$$;
