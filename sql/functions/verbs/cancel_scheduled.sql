-- Deletes scheduled messages whose time has not come, by their sequence numbers: all or none. Messages that were
-- abandoned with a delay count as scheduled, too, for those who may also receive from the queue. With the name of a
-- topic it does what pgqueue.cancel_on_topic does.
-- Returns  how many were deleted.
-- Raises   PQ002 unknown queue, or topic; PQ006 message not found, when a message is not scheduled, or no longer.
-- Locks    the messages, until the transaction ends; waits for an open transaction that cancels, activates or
--          replaces one of them.
create or replace function pgqueue.cancel_scheduled(queue text, sequence_numbers bigint[])
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    source    pgqueue.queue;
    cancelled bigint[];
    unknown   bigint;
begin
    if exists (select from pgqueue.topic where name = cancel_scheduled.queue) then
        return pgqueue.cancel_on_topic(queue, sequence_numbers);
    end if;
    source    := pgqueue._find_queue(queue, 'SEND');
    cancelled := pgqueue._delete_scheduled(source, pgqueue._lock_scheduled(source, sequence_numbers), 'CANCELLED');
    select number into unknown
      from unnest(sequence_numbers) as number
     where number is null or number <> all (cancelled)
     limit 1;
    if found then
        perform pgqueue._refuse_unknown_message(source, 'scheduled', unknown);
    end if;
    return cardinality(cancelled);
end
$$;
