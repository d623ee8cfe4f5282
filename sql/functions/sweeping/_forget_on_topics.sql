-- Deletes the message ids of topics whose window is over, and the numbers of scheduled messages whose time has come, at most
-- `max_records` of each; with `dry_run` they are only counted. They are looked for `since` the last sweep (pgqueue._swept_until). Where
-- that reads many pages, it records how far it has come.
-- Returns  how many were deleted.
create or replace function pgqueue._forget_on_topics(max_records integer, dry_run boolean, since timestamptz)
returns integer
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    moment timestamptz := pgqueue.clock();
    pages  bigint      := pgqueue._pages_read();
    topics pgqueue.queue;                                    -- stands for all of them
    ids    integer;
    due    integer;
begin
    if dry_run then
        return (select count(*)
                  from pgqueue.topic
                 cross join lateral (
                       select
                         from pgqueue.sent_message_id
                        where queue_id = -topic.id and sent_at >= since - topic.duplicate_detection_history_time_window
                          and sent_at <= moment - topic.duplicate_detection_history_time_window
                        order by sent_at) as old)
               + (select count(*) from pgqueue.scheduled_on_topic where scheduled_enqueue_time between since and moment);
    end if;
    delete from pgqueue.sent_message_id
     where ctid = any (array(
               select place
                 from pgqueue.topic
                cross join lateral (
                      select ctid as place
                        from pgqueue.sent_message_id
                       where queue_id = -topic.id and sent_at >= since - topic.duplicate_detection_history_time_window
                         and sent_at <= moment - topic.duplicate_detection_history_time_window
                       order by sent_at
                       limit max_records
                         for update skip locked) as old
                limit max_records));
    get diagnostics ids = row_count;
    delete from pgqueue.scheduled_on_topic
     where ctid = any (array(
               select ctid
                 from pgqueue.scheduled_on_topic
                where scheduled_enqueue_time between since and moment
                order by scheduled_enqueue_time
                limit max_records
                  for update skip locked));
    get diagnostics due = row_count;
    if pgqueue._pages_read() > pages + 100 and coalesce(greatest(ids, due) < max_records, true) then
        topics.id := 0;
        perform pgqueue._record_sweep(topics, since);
    end if;
    return ids + due;
end
$$;
