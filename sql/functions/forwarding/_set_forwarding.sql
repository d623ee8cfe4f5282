-- Sets to which queues a queue forwards its messages and its dead letters; null leaves a setting as it is, '' removes it.
-- Raises  PQ002 unknown queue; PQ007 invalid argument, when the target is a topic, or the queue would forward to itself, directly or
--         through others.
-- Locks   the targets against being dropped, and other changes of forwarding, until the transaction ends.
create or replace function pgqueue._set_forwarding(queue text, forward_to text, forward_dead_lettered_messages_to text)
returns void
language plpgsql
as $$
declare
    source    pgqueue.queue;
    setting   text;
    target    text;
    target_id integer;
begin
    if num_nonnulls(forward_to, forward_dead_lettered_messages_to) = 0 then
        return;
    end if;
    update pgqueue.forwarding_change set changed_at = pgqueue.clock();      -- one after the other, at every isolation level
    source := pgqueue._find_queue(queue, 'SETTINGS');
    for setting, target in
        select *
          from (values ('forward_to', forward_to),
                       ('forward_dead_lettered_messages_to', forward_dead_lettered_messages_to)) as given (setting, target)
         where given.target is not null
    loop
        target_id := null;
        if target <> '' then
            select id into target_id from pgqueue.queue where name = target for key share;
            if target_id is null then
                perform pgqueue._refuse(
                            'PQ007', format('%s must be a queue, not the topic %I', setting, target),
                            format('Forward to the queue of a subscription, such as %L, or let a handler send to the topic.',
                                   target || '/Subscriptions/NAME'))
                   from pgqueue.topic where name = target;
                perform pgqueue._refuse_unknown_queue(target);
            end if;
            if pgqueue._forwards(target_id, source.id) then
                perform pgqueue._refuse_argument(
                    setting, format('another queue, which does not forward to %I, directly or through others', queue), quote_literal(target));
            end if;
            insert into pgqueue.forwarding_target (queue_id) values (target_id) on conflict do nothing;
        end if;
        execute format('update pgqueue.queue set %I = $1 where id = $2', setting) using target_id, source.id;
    end loop;
end
$$;
