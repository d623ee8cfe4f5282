-- Records message ids in a queue that detects duplicates. A unique index decides: when two transactions send the same
-- id, the second waits for the outcome of the first. Ids are inserted in sorted order, so that two batches cannot
-- deadlock. A message without an id is never a duplicate.
-- Returns  for each message its own number, or the number of an earlier message with its id.
-- Locks    the ids, until the transaction ends.
create or replace function pgqueue._record_message_ids(target pgqueue.queue, message_ids text[], numbers bigint[])
returns bigint[]
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
begin
    insert into pgqueue.sent_message_id (queue_id, message_id, sequence_number, sent_at)
    select target.id, message_id, min(number), moment
      from unnest(message_ids, numbers) as given (message_id, number)
     where message_id is not null
     group by message_id
     order by message_id
        on conflict on constraint sent_message_id_pkey do update
       set sequence_number = excluded.sequence_number, sent_at = excluded.sent_at
     where sent_message_id.sent_at <= moment - target.duplicate_detection_history_time_window;
    return array(
        select coalesce(sequence_number, number)
          from unnest(message_ids, numbers) with ordinality as given (id, number, nth)
          left join lateral (
               select sequence_number
                 from pgqueue.sent_message_id
                where queue_id = target.id and message_id between id and id
                order by message_id                      -- by the index in that order, whatever the statistics
                limit 1) as known on true
         order by nth);
end
$$;
