-- Wakes the callers that wait for outcomes of a queue, when this transaction commits: with the number of each message, or with 0 where there
-- are many. Does nothing while no caller waits, and where pgqueue._notify does nothing.
create or replace function pgqueue._notify_settled(queue pgqueue.queue, sequence_numbers bigint[])
returns void
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();   -- a condition of the index: it must not change from row to row
begin
    if coalesce(current_setting('pgqueue.notify', true), '') <> 'off'
       and exists (select from pgqueue.waiting_for_outcome where queue_id = queue.id and waits_until > moment)
       and pg_notification_queue_usage() < 0.5 then
        perform pg_notify('pgqueue_settled', number || ' ' || queue.name)
           from unnest(case when cardinality(sequence_numbers) <= 100 then sequence_numbers else '{0}' end) as number;
    end if;
end
$$;
