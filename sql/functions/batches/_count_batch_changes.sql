-- The trigger of pgqueue.batch_change, which runs when a transaction commits: adds all changes that the transaction has made to batches to
-- their stripes. The first run of a transaction takes all changes; later ones find none. Locks the stripes in their order, then the batches,
-- only while the commit lasts. A stripe is at its end when the batch is closed and none of the stripe's members is pending.
create or replace function pgqueue._count_batch_changes()
returns trigger
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    change   record;
    is_ended boolean;
    ended    uuid[] := '{}';
    known    pgqueue.batch;
begin
    if not exists (select from pgqueue.batch_change where transaction_id = new.transaction_id and id = new.id) then
        return null;
    end if;
    for change in
        with taken as (
            delete from pgqueue.batch_change where transaction_id = new.transaction_id and id >= new.id returning *)
        select batch_id, stripe, sum(added - completed - dead_lettered - deleted) as pending, sum(completed) as completed,
               sum(dead_lettered) as dead_lettered, sum(deleted) as deleted, bool_or(closes) as closes
          from taken
         group by batch_id, stripe
         order by batch_id, stripe
    loop
        update pgqueue.batch_stripe as counted
           set pending       = counted.pending + change.pending,
               completed     = counted.completed + change.completed,
               dead_lettered = counted.dead_lettered + change.dead_lettered,
               deleted       = counted.deleted + change.deleted,
               is_closed     = counted.is_closed or change.closes
         where counted.batch_id = change.batch_id and counted.stripe = change.stripe
        returning counted.is_closed and counted.pending = 0 into is_ended;
        if is_ended then
            ended := ended || change.batch_id;
        end if;
    end loop;
    for change in
        select batch_id, count(*) as stripes from unnest(ended) as batch_id group by batch_id order by batch_id
    loop
        update pgqueue.batch set open_stripes = open_stripes - change.stripes where id = change.batch_id returning * into known;
        if known.open_stripes = 0 then
            perform pgqueue._finish_batch(known);
        end if;
    end loop;
    return null;
end
$$;
