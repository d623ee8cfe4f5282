-- Drops tables that were staged at least a week ago, at most a hundred: each takes locks until the transaction ends. It ends with the first
-- that is being read, by a backup for example; the others have their turn in a later call.
create or replace function pgqueue._discard_abandoned()
returns void
language plpgsql
set lock_timeout = '100ms'
as $$
declare
    gone text;
begin
    for gone in
        select name
          from pgqueue.staged_batch
         where staged_at <= pgqueue.clock() - interval '7 days'
         order by random()
         limit 100
           for update skip locked
    loop
        begin
            perform pgqueue._drop_staged(array[gone]);
        exception when lock_not_available then
            return;
        end;
    end loop;
end
$$;
