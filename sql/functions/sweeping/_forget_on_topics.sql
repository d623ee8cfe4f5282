-- Deletes the message ids of topics whose window is over, and the numbers of scheduled messages whose time has come, at most
-- `max_records` of each; with `dry_run` they are only counted.
-- Returns  how many were deleted.
create or replace function pgqueue._forget_on_topics(max_records integer, dry_run boolean)
returns integer
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    moment timestamptz := pgqueue.clock();
    ids    integer;
    due    integer;
begin
    if dry_run then
        return (select count(*)
                  from pgqueue.topic
                 cross join lateral (
                       select
                         from pgqueue.sent_message_id
                        where queue_id = -topic.id and sent_at <= moment - topic.duplicate_detection_history_time_window
                        order by sent_at) as old)
               + (select count(*) from pgqueue.scheduled_on_topic where scheduled_enqueue_time <= moment);
    end if;
    delete from pgqueue.sent_message_id
     where ctid = any (array(
               select place
                 from pgqueue.topic
                cross join lateral (
                      select ctid as place
                        from pgqueue.sent_message_id
                       where queue_id = -topic.id and sent_at <= moment - topic.duplicate_detection_history_time_window
                       order by sent_at
                       limit max_records
                         for update skip locked) as old
                limit max_records));
    get diagnostics ids = row_count;
    delete from pgqueue.scheduled_on_topic
     where ctid = any (array(
               select ctid
                 from pgqueue.scheduled_on_topic
                where scheduled_enqueue_time <= moment
                order by scheduled_enqueue_time
                limit max_records
                  for update skip locked));
    get diagnostics due = row_count;
    return ids + due;
end
$$;
