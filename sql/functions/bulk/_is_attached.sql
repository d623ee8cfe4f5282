-- Returns whether another session works for a consumer: the one that attached last is there, and holds the lock that it took
-- then. A lock on the same key by any other process does not count.
create or replace function pgqueue._is_attached(consumer pgqueue.consumer)
returns boolean
language sql stable
as $$
    select exists (
           select
             from pg_locks
            where locktype = 'advisory' and objsubid = 1
              and database = (select oid from pg_database where datname = current_database())
              and (classid::bigint << 32) | objid::bigint = consumer.attached_key
              and pid = consumer.attached_pid and pid <> pg_backend_pid())
$$;
