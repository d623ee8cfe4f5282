-- Deletes the message ids of topics whose window is over, and the numbers of scheduled messages whose time has come, at most
-- `max_records` of each; with `dry_run` they are only counted.
-- Returns  how many.
create or replace function pgqueue._forget_on_topics(max_records integer, dry_run boolean)
returns integer
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    moment timestamptz := pgqueue.clock();
    ids    tid[] := array(
        select place
          from pgqueue.topic
         cross join lateral (
               select ctid as place
                 from pgqueue.sent_message_id
                where queue_id = -topic.id and sent_at <= moment - topic.duplicate_detection_history_time_window
                order by sent_at
                limit max_records) as old
         limit max_records);
    due    tid[] := array(
        select ctid
          from pgqueue.scheduled_on_topic
         where scheduled_enqueue_time <= moment
         order by scheduled_enqueue_time
         limit max_records);
begin
    if not dry_run then
        delete from pgqueue.sent_message_id
         where ctid = any (array(select ctid from pgqueue.sent_message_id where ctid = any (ids) for update skip locked));
        delete from pgqueue.scheduled_on_topic
         where ctid = any (array(select ctid from pgqueue.scheduled_on_topic where ctid = any (due) for update skip locked));
    end if;
    return cardinality(ids) + cardinality(due);
end
$$;
