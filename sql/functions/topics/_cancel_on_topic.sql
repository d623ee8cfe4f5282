-- Deletes the copies of scheduled messages of a topic in all subscriptions, by their numbers in the topic: all or none.
-- Returns  how many messages these are.
-- Raises   PQ006 message not found, when one is not scheduled, or no longer; 42501 access denied.
-- Locks    the copies, until the transaction ends; waits for an open transaction that cancels or activates one of them.
create or replace function pgqueue._cancel_on_topic(topic text, sequence_numbers bigint[])
returns bigint
language plpgsql
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    known   pgqueue.topic;
    wanted  bigint[] := array(select distinct number from unnest(sequence_numbers) as number where number is not null order by number);
    gone    bigint[];
    held    record;
    target  pgqueue.queue;
    unknown bigint;
begin
    known := pgqueue._find_topic(topic);
    if not pgqueue._may_send(known.senders) then
        perform pgqueue._refuse_access('SEND', topic, 'topic');
    end if;
    for held in
        select queue_id, array_agg(copy order by copy) as copies
          from pgqueue.scheduled_on_topic
          join pgqueue.queue on queue.id = queue_id         -- not of a subscription that was dropped
         where topic_id = known.id and sequence_number = any (wanted)
         group by queue_id
         order by queue_id
    loop
        select * into target from pgqueue.queue where id = held.queue_id;
        perform pgqueue._delete_scheduled(target, pgqueue._lock_scheduled(target, held.copies), 'CANCELLED');
    end loop;
    with cancelled as (
        delete from pgqueue.scheduled_on_topic
         where topic_id = known.id and sequence_number = any (wanted)
           and scheduled_enqueue_time > pgqueue.clock()       -- looked at last: until then no copy can have been activated
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
