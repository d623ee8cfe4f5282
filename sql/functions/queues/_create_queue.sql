-- Creates a queue, or that of a subscription; see pgqueue.create_queue. Its name has been checked.
-- Returns  the queue's id.
-- Raises   PQ002 unknown queue, PQ003 queue already exists, PQ007 invalid argument, PQ041 topic already exists.
-- Locks    as pgqueue.create_queue.
create or replace function pgqueue._create_queue(
    queue                                   text,
    -- generated rows: {all settings: $name | $type}
    lock_duration                           interval,
    max_delivery_count                      integer,
    max_message_size                        bigint,
    status                                  text,
    user_metadata                           jsonb,
    default_message_time_to_live            interval,
    dead_lettering_on_message_expiration    boolean,
    requires_duplicate_detection            boolean,
    duplicate_detection_history_time_window interval,
    max_queue_length                        bigint,
    retain_history                          interval,
    retain_errors                           integer,
    auto_delete_on_idle                     interval,
    requires_session                        boolean,
    forward_to                              text,
    forward_dead_lettered_messages_to       text,
    max_receive_rate                        double precision,
    max_concurrent                          integer,
    priority_ageing                         interval,
    result_retention                        interval,
    max_concurrent_per_group                integer,
    max_receive_rate_per_group              double precision,
    fair                                    boolean
    -- end
)
returns integer
language plpgsql
as $$
#variable_conflict use_variable
declare
    new_id   integer;
    is_topic boolean;
begin
    perform pgqueue._check_settings(
        -- generated: {all settings if holds}
        lock_duration, max_delivery_count, max_message_size, status, default_message_time_to_live,
        duplicate_detection_history_time_window, max_queue_length, retain_history, retain_errors, auto_delete_on_idle,
        max_receive_rate, max_concurrent, priority_ageing, result_retention, max_concurrent_per_group,
        max_receive_rate_per_group
        -- end
    );
    perform pgqueue._repair_ids('pgqueue.queue');
    insert into pgqueue.queue (
        -- generated: name, {all settings if is_plain}, records_settlements, awaited_until
        name, lock_duration, max_delivery_count, max_message_size, status, user_metadata, default_message_time_to_live,
        dead_lettering_on_message_expiration, requires_duplicate_detection, duplicate_detection_history_time_window,
        max_queue_length, retain_history, retain_errors, auto_delete_on_idle, requires_session, max_receive_rate,
        max_concurrent, priority_ageing, result_retention, max_concurrent_per_group, max_receive_rate_per_group, fair,
        records_settlements, awaited_until
        -- end
    ) values (
        -- generated: queue, {all settings if is_plain: $or_default},
        queue, coalesce(lock_duration, interval '60 seconds'), coalesce(max_delivery_count, 10), max_message_size,
        coalesce(status, 'ACTIVE'), user_metadata, default_message_time_to_live,
        coalesce(dead_lettering_on_message_expiration, false), coalesce(requires_duplicate_detection, false),
        coalesce(duplicate_detection_history_time_window, interval '10 minutes'), max_queue_length, retain_history,
        retain_errors, auto_delete_on_idle, coalesce(requires_session, false), max_receive_rate, max_concurrent,
        priority_ageing, result_retention, max_concurrent_per_group, max_receive_rate_per_group,
        coalesce(fair, num_nonnulls(max_concurrent_per_group, max_receive_rate_per_group) > 0),
        -- end
        num_nonnulls(retain_history, result_retention) > 0,
        (select max(dropped.awaited_until) from pgqueue.dropped_queue as dropped where dropped.name = queue)
    )
        on conflict on constraint queue_name_is_taken do nothing
    returning id into new_id;
    if new_id is null then
        perform pgqueue._refuse(
            'PQ003', format('queue %I exists already', queue),
            'Change its settings with pgqueue.alter_queue.');
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        -- For a moment it is a topic, too: that finds one of this name which the transaction's snapshot does not show.
        insert into pgqueue.topic (id, name, created_at) overriding system value values (-new_id, queue, pgqueue.clock())
            on conflict on constraint topic_name_is_taken do nothing;
        delete from pgqueue.topic where id = -new_id;
        is_topic := not found;
    else
        is_topic := exists (select from pgqueue.topic where name = queue);
    end if;
    if is_topic then
        perform pgqueue._refuse(
            'PQ041', format('%I is a topic, and cannot be a queue, too', queue),
            'Choose another name, or create a subscription with pgqueue.create_subscription.');
    end if;
    insert into pgqueue.waiting_consumer (queue_id, waits_until)
    select id, awaited_until from pgqueue.queue where id = new_id and awaited_until > pgqueue.clock();
    perform pgqueue._create_lanes(new_id, 0);
    insert into pgqueue.scheduled_progress (queue_id, kind)
    select new_id, kind from unnest('{MESSAGE,WATCH,SESSION}'::text[]) as kind where kind <> 'SESSION' or requires_session or fair;
    insert into pgqueue.front (queue_id, kind) values (new_id, 'DEFERRED'), (new_id, 'DEAD_LETTERED');
    perform pgqueue._set_forwarding(queue, forward_to, forward_dead_lettered_messages_to);
    perform pgqueue._check_session_settings(queue);
    if auto_delete_on_idle is not null then
        insert into pgqueue.queue_use (queue_id, used_at) values (new_id, pgqueue.clock());
    end if;
    perform pgqueue._create_limits(created) from pgqueue.queue as created where id = new_id;
    return new_id;
end
$$;
