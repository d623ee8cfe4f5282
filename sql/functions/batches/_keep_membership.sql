-- Keeps messages that move to another queue in their batches.
create or replace function pgqueue._keep_membership(source_id integer, target_id integer, numbers bigint[])
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    if not (select known.has_batches from pgqueue.queue as known where known.id = source_id) then
        return;                              -- read again: the first member may be younger than what the caller knows of the queue
    end if;
    update pgqueue.batch_member
       set queue_id = target_id
     where ctid = any (array(
               select place
                 from unnest(numbers) as number
                cross join lateral (
                      select ctid as place from pgqueue.batch_member where queue_id = source_id and sequence_number = number limit 1) as known));
    if found then
        perform pgqueue._set_has_batches(array[target_id]);
    end if;
end
$$;
