-- Cancels scheduled messages of a topic in all subscriptions, by the numbers that pgqueue.send_to_topic has returned: all or none.
-- Copies in subscriptions that were dropped do not count.
-- Returns  how many messages these are.
-- Raises   PQ006 message not found, when one is not scheduled, or no longer, or a subscription no longer has its copy scheduled; PQ040
--          unknown topic.
-- Locks    the copies, and the topic against being dropped, until the transaction ends; waits for an open transaction that cancels or
--          activates one of them, or drops the topic.
create or replace function pgqueue.cancel_on_topic(topic text, sequence_numbers bigint[])
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    known   pgqueue.topic;
    wanted  bigint[] := array(select distinct number from unnest(sequence_numbers) as number where number is not null order by number);
    gone    bigint[];
    held    record;
    target  pgqueue.queue;
    places  tid[];
    unknown bigint;
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    known := pgqueue._find_topic(topic);
    if not pgqueue._may_send(known.senders) then
        perform pgqueue._refuse_access('SEND', topic, 'topic');
    end if;
    for held in
        select queue_id, array_agg(distinct copy) as copies
          from pgqueue.scheduled_on_topic
          join pgqueue.queue on queue.id = queue_id         -- not of a subscription that was dropped
         where topic_id = known.id and sequence_number = any (wanted)
         group by queue_id
         order by queue_id
    loop
        select * into target from pgqueue.queue where id = held.queue_id;
        places := pgqueue._lock_scheduled(target, held.copies);
        places := array(                                       -- a copy may have got an earlier time than the message
            select ctid from pgqueue.scheduled_message where ctid = any (places) and scheduled_enqueue_time > pgqueue.clock());
        gone   := pgqueue._delete_scheduled(target, places, 'CANCELLED');
        if cardinality(gone) < cardinality(held.copies) then
            perform from pgqueue.queue where id = held.queue_id;
            continue when not found;                           -- the subscription was dropped meanwhile
            select sequence_number into unknown
              from pgqueue.scheduled_on_topic
             where topic_id = known.id and sequence_number = any (wanted) and queue_id = held.queue_id and copy <> all (gone)
             limit 1;
            perform pgqueue._refuse(
                'PQ006', format('message %s of topic %I is no longer scheduled in %I', unknown, known.name, target.name),
                'Its time may have come, or it was moved or deleted there. The other copies can be cancelled one by one in their subscriptions.');
        end if;
    end loop;
    with cancelled as (
        delete from pgqueue.scheduled_on_topic
         where topic_id = known.id and sequence_number = any (wanted)
           and scheduled_enqueue_time > pgqueue.clock()       -- from then on a sweep may have deleted some of these rows
        returning sequence_number)
    select array_agg(distinct sequence_number) into gone from cancelled;
    select number into unknown
      from unnest(sequence_numbers) as number
     where number is null or number <> all (coalesce(gone, '{}'))
     limit 1;
    if found then
        perform pgqueue._refuse(
            'PQ006', format('topic %I has no scheduled message %s', known.name, coalesce(unknown::text, 'null')),
            'It may have been cancelled, or its time may have come.');
    end if;
    return cardinality(wanted);
end
$$;
