-- Deletes message ids of a queue whose window is over, and effects and published batches that need not be kept any
-- longer, at most `max_records` together.
-- Returns  how many were deleted.
create or replace function pgqueue._delete_old_records(queue pgqueue.queue, max_records integer)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    moment  timestamptz := pgqueue.clock();
    ids     integer;
    effects integer;
    batches integer;
begin
    delete from pgqueue.sent_message_id
     where ctid = any (array(
               select ctid
                 from pgqueue.sent_message_id
                where queue_id = queue.id and sent_at <= moment - queue.duplicate_detection_history_time_window
                order by sent_at
                limit max_records
                  for update skip locked));
    get diagnostics ids = row_count;
    delete from pgqueue.recorded_effect
     where ctid = any (array(
               select ctid
                 from pgqueue.recorded_effect
                where queue_id = queue.id and forget_at <= moment
                order by forget_at
                limit max_records - ids
                  for update skip locked));
    get diagnostics effects = row_count;
    delete from pgqueue.published_batch
     where ctid = any (array(
               select ctid
                 from pgqueue.published_batch
                where queue_id = queue.id and forget_at <= moment
                order by forget_at
                limit max_records - ids - effects
                  for update skip locked));
    get diagnostics batches = row_count;
    return ids + effects + batches;
end
$$;
