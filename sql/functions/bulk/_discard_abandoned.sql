-- Drops tables that were staged at least a week ago, at most a hundred: each takes locks until the transaction ends. If one is being
-- read, by a backup for example, they are left for a later call.
create or replace function pgqueue._discard_abandoned()
returns void
language plpgsql
set lock_timeout = '100ms'
as $$
begin
    perform pgqueue._drop_staged(array(
        select name
          from pgqueue.staged_batch
         where staged_at <= pgqueue.clock() - interval '7 days'
         order by staged_at
         limit 100
           for update skip locked));
exception when lock_not_available then
    null;
end
$$;
