-- Frees the space of one day of history that no queue retains any more, the first that can be truncated. A day that
-- is being read is left for a later call. So is the one that tomorrow has: its rows may be new, when the clock went back over midnight.
-- Returns  whether a day was reclaimed; with `dry_run`, whether one can be.
create or replace function pgqueue._reclaim_history(dry_run boolean)
returns boolean
language plpgsql
set lock_timeout = '100ms'
as $$
declare
    today    integer := extract(epoch from pgqueue.clock())::bigint / 86400;
    days     integer := 1 + ceil(coalesce(max(extract(epoch from retain_history)), 0) / 86400) from pgqueue.queue;
    outdated regclass;
begin
    for outdated in
        select format('pgqueue_history.settled_message_%s', lpad((day % 64)::text, 2, '0'))::regclass
          from generate_series(today - 62, today - days) as day
    loop
        continue when pg_relation_size(outdated) = 0;
        if dry_run then
            return true;
        end if;
        begin
            execute format('truncate %s', outdated);
            return true;
        exception when lock_not_available then
            null;
        end;
    end loop;
    return false;
end
$$;
