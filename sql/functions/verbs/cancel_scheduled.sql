-- Deletes scheduled messages whose time has not come, by their sequence numbers: all or none. Messages that were
-- abandoned with a delay count as scheduled, too, for those who may also receive from the queue.
-- Returns  how many were deleted.
-- Raises   PQ002 unknown queue; PQ006 message not found, when a message is not scheduled, or no longer.
-- Locks    the messages, until the transaction ends; waits for an open transaction that cancels or activates one of
--          them.
create or replace function pgqueue.cancel_scheduled(queue text, sequence_numbers bigint[])
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    source    pgqueue.queue := pgqueue._find_queue(queue, 'SEND');
    places    tid[];
    cancelled bigint[];
    unknown   bigint;
begin
    places := array(
        select place
          from (select distinct number from unnest(sequence_numbers) as number order by number) as given
         cross join lateral (
               select ctid as place
                 from pgqueue.scheduled_message
                where queue_id = source.id and sequence_number between number and number
                  and (pgqueue._is_sent_for_later(lane) or pgqueue._may_receive(source.receivers))
                order by sequence_number                      -- by the index in that order, whatever the statistics
                  for update) as held);
    with gone as (
        delete from pgqueue.scheduled_message where ctid = any (places) returning *
    ), remembered as (
        insert into pgqueue.settled_message
        select settled.*
          from gone
         cross join lateral pgqueue._history_row(pgqueue._scheduled_as_message(gone::pgqueue.scheduled_message), 'CANCELLED') as settled
         where source.retain_history is not null)
    select array_agg(sequence_number) into cancelled from gone;
    select number into unknown
      from unnest(sequence_numbers) as number
     where number is null or cancelled is null or number <> all (cancelled)
     limit 1;
    if found then
        perform pgqueue._refuse_unknown_message(source, 'scheduled', unknown);
    end if;
    perform pgqueue._forget_failures(source.id, cancelled);
    return coalesce(cardinality(cancelled), 0);
end
$$;
