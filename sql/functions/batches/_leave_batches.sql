-- Ends the membership of messages that leave a queue for good, whose rows are locked. When this transaction commits, they count in their
-- batches as completed, dead-lettered or deleted.
create or replace function pgqueue._leave_batches(queue_id integer, numbers bigint[], outcome text)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    with gone as (
        delete from pgqueue.batch_member
         where ctid = any (array(
                   select place
                     from unnest(numbers) as number
                    cross join lateral (
                          select ctid as place
                            from pgqueue.batch_member
                           where queue_id = _leave_batches.queue_id and sequence_number = number
                           limit 1) as known))
        returning batch_id, stripe)
    insert into pgqueue.batch_change (batch_id, stripe, completed, dead_lettered, deleted)
    select batch_id, stripe,
           case when outcome in ('COMPLETED', 'RECEIVED_AND_DELETED') then count(*) else 0 end,
           case when outcome = 'DEAD_LETTERED' then count(*) else 0 end,
           case when outcome not in ('COMPLETED', 'RECEIVED_AND_DELETED', 'DEAD_LETTERED') then count(*) else 0 end
      from gone
     group by batch_id, stripe;
end
$$;
