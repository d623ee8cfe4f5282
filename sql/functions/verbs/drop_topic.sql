-- Drops a topic and its subscriptions with all their messages and dead letters. The next sweep removes what is being
-- sent meanwhile.
-- Raises  PQ040 unknown topic; PQ007 invalid argument, when other queues forward to a subscription; 40001 at REPEATABLE READ, when
--         a subscription was created since the transaction began.
-- Locks   the topic, and what pgqueue.drop_queue locks; senders do not wait.
create or replace function pgqueue.drop_topic(topic text)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    dropped integer;
begin
    perform pgqueue._check_admin(topic, 'topic');
    select id into dropped from pgqueue.topic where name = drop_topic.topic for update;
    if not found then
        perform pgqueue._refuse_unknown_topic(topic);
    end if;
    update pgqueue.forwarding_change set changed_at = pgqueue.clock();     -- one after the other, as in pgqueue._set_forwarding
    update pgqueue.queue                                       -- the subscriptions may forward to each other
       set forward_to = null, forward_dead_lettered_messages_to = null
     where id in (select queue_id from pgqueue.subscription where topic_id = dropped)
       and num_nonnulls(forward_to, forward_dead_lettered_messages_to) > 0;
    perform pgqueue.drop_queue(queue.name)
       from pgqueue.subscription
       join pgqueue.queue on id = queue_id
      where topic_id = dropped
      order by queue_id;
    insert into pgqueue.dropped_queue (queue_id, name, dropped_at)
    values (-dropped, topic, pgqueue.clock())
        on conflict on constraint dropped_queue_pkey do update set dropped_at = excluded.dropped_at;
    begin
        delete from pgqueue.topic where id = dropped;
        delete from pgqueue.sent_message_id where queue_id = -dropped;
        delete from pgqueue.scheduled_on_topic where topic_id = dropped;
    exception when foreign_key_violation then
        perform pgqueue._refuse(
            '40001', format('topic %I has got a subscription that this transaction does not see', topic),
            'Roll back and try again.');
    end;
end
$$;
