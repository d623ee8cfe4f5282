-- Deletes messages, `max_messages` at the most or all when null: those that wait, those that are locked, and then the
-- scheduled ones; never dead letters. Who holds the lock of one finds it lost.
-- Returns  how many.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the messages; skips those that open transactions hold.
create or replace function pgqueue.purge_queue(queue text, max_messages integer default null)
returns bigint
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    source    pgqueue.queue := pgqueue._find_queue(queue);
    purged    bigint;
    scheduled bigint;
begin
    perform pgqueue._check_bound(max_messages);
    delete from pgqueue.message
     where ctid = any (array(
               select ctid
                 from pgqueue.message
                where queue_id = source.id
                order by lane, position
                limit max_messages
                  for update skip locked));
    get diagnostics purged = row_count;
    delete from pgqueue.scheduled_message
     where ctid = any (array(
               select ctid
                 from pgqueue.scheduled_message
                where queue_id = source.id
                order by sequence_number
                limit max_messages - purged
                  for update skip locked));
    get diagnostics scheduled = row_count;
    return purged + scheduled;
end
$$;
