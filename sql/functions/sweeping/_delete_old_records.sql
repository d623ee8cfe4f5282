-- Deletes message ids of a queue whose window is over, effects, published batches and outcomes that need not be kept any
-- longer, subscriptions to outcomes that are over, unique keys whose message is gone, and sessions without messages, state and holder, at most `max_records`
-- together. Records are looked for `since` the last sweep, keys and sessions when everything is looked over
-- (pgqueue._swept_until).
-- Returns  how many were deleted.
create or replace function pgqueue._delete_old_records(queue pgqueue.queue, max_records integer, since timestamptz)
returns integer
language plpgsql
as $$
#variable_conflict use_column
declare
    moment  timestamptz := pgqueue.clock();
    ids     integer;
    effects integer;
    batches integer;
    ended   integer;
    awaited integer;
    keys    integer := 0;
begin
    delete from pgqueue.sent_message_id
     where ctid = any (array(
               select ctid
                 from pgqueue.sent_message_id
                where queue_id = queue.id and sent_at >= since - queue.duplicate_detection_history_time_window
                  and sent_at <= moment - queue.duplicate_detection_history_time_window
                order by sent_at
                limit max_records
                  for update skip locked));
    get diagnostics ids = row_count;
    delete from pgqueue.recorded_effect
     where ctid = any (array(
               select ctid
                 from pgqueue.recorded_effect
                where queue_id = queue.id and forget_at >= since and forget_at <= moment
                order by forget_at
                limit max_records - ids
                  for update skip locked));
    get diagnostics effects = row_count;
    delete from pgqueue.published_batch
     where ctid = any (array(
               select ctid
                 from pgqueue.published_batch
                where queue_id = queue.id and forget_at >= since and forget_at <= moment
                order by forget_at
                limit max_records - ids - effects
                  for update skip locked));
    get diagnostics batches = row_count;
    delete from pgqueue.outcome
     where ctid = any (array(
               select ctid
                 from pgqueue.outcome
                where queue_id = queue.id and settled_at >= since - coalesce(queue.result_retention, interval '0')
                  and settled_at <= moment - coalesce(queue.result_retention, interval '0')
                order by settled_at
                limit max_records - ids - effects - batches
                  for update skip locked));
    get diagnostics ended = row_count;
    delete from pgqueue.waiting_for_outcome
     where ctid = any (array(
               select ctid
                 from pgqueue.waiting_for_outcome
                where queue_id = queue.id and waits_until >= since and waits_until <= moment
                order by waits_until
                limit max_records - ids - effects - batches - ended
                  for update skip locked));
    get diagnostics awaited = row_count;
    ids := ids + ended + awaited;
    if since = '-infinity' then
        delete from pgqueue.unique_key
         where ctid = any (array(
                   select free.place from pgqueue._free_unique_keys(queue, max_records - ids - effects - batches) as free));
        get diagnostics keys = row_count;
    end if;
    if (queue.requires_session or queue.fair) and since = '-infinity' then
        perform pgqueue._forget_sessions(queue.id, pgqueue._empty_sessions(queue.id, array(
            select session_id
              from pgqueue.session
             where queue_id = queue.id and num_nonnulls(state, binary_state) = 0
               and (horizon = 0 or horizon_taken_at not between moment - interval '1 hour' and moment)
               and (locked_until is null or locked_until <= moment - interval '1 hour')
             limit max_records - ids - effects - batches - keys)));
    end if;
    return ids + effects + batches + keys;
end
$$;
