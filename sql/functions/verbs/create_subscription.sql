-- Creates a subscription of a topic: a queue named '<topic>/Subscriptions/<subscription>', with the settings that
-- pgqueue.create_queue gives it, in which the messages of the topic are stored that its filter matches; without a filter, all.
-- Messages that open transactions have stored already are not sent again.
--
-- A `correlation_filter` is a JSON object of the values that a message must have: its fields that are ids or
-- names, such as message_id, subject and reply_to, and some of its application_properties, which is an object, too. A
-- `json_path_filter` is a condition over the message as JSON: its fields by these names, and its body. A message on which it fails does not match.
-- An `sql_filter` is kept beside the JSON path that a client has translated it to.
-- `set_properties` are merged into the application properties of what is stored in the subscription.
--
-- The filter and the properties are those of the subscription's rule $Default; see pgqueue.create_rule for others.
-- Returns  the id of the queue.
-- Raises   PQ003 queue already exists, PQ007 invalid argument, PQ040 unknown topic.
-- Locks    the topic against being dropped; waits for an open transaction that has created a subscription of the same name.
create or replace function pgqueue.create_subscription(
    topic                                   text,
    subscription                            text,
    correlation_filter                      jsonb    default null,
    json_path_filter                        text     default null,
    sql_filter                              text     default null,
    set_properties                          jsonb    default null,
    -- generated rows: {all settings: $name | $type | default null}
    lock_duration                           interval         default null,
    max_delivery_count                      integer          default null,
    max_message_size                        bigint           default null,
    status                                  text             default null,
    user_metadata                           jsonb            default null,
    default_message_time_to_live            interval         default null,
    dead_lettering_on_message_expiration    boolean          default null,
    requires_duplicate_detection            boolean          default null,
    duplicate_detection_history_time_window interval         default null,
    max_queue_length                        bigint           default null,
    retain_history                          interval         default null,
    retain_errors                           integer          default null,
    auto_delete_on_idle                     interval         default null,
    requires_session                        boolean          default null,
    forward_to                              text             default null,
    forward_dead_lettered_messages_to       text             default null,
    max_receive_rate                        double precision default null,
    max_concurrent                          integer          default null,
    priority_ageing                         interval         default null,
    result_retention                        interval         default null,
    max_concurrent_per_group                integer          default null,
    max_receive_rate_per_group              double precision default null,
    fair                                    boolean          default null
    -- end
)
returns integer
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    known  pgqueue.topic;
    filter pgqueue.rule;
begin
    perform pgqueue._check_admin(topic, 'topic');
    known  := pgqueue._find_topic(topic);
    perform pgqueue._check_name('subscription', subscription);
    filter := pgqueue._read_filter(correlation_filter, json_path_filter, sql_filter, set_properties);
    filter.queue_id := pgqueue._create_queue(
        pgqueue._subscription_queue(topic, subscription),
        -- generated rows: {all settings: $name | => $name}
        lock_duration                           => lock_duration,
        max_delivery_count                      => max_delivery_count,
        max_message_size                        => max_message_size,
        status                                  => status,
        user_metadata                           => user_metadata,
        default_message_time_to_live            => default_message_time_to_live,
        dead_lettering_on_message_expiration    => dead_lettering_on_message_expiration,
        requires_duplicate_detection            => requires_duplicate_detection,
        duplicate_detection_history_time_window => duplicate_detection_history_time_window,
        max_queue_length                        => max_queue_length,
        retain_history                          => retain_history,
        retain_errors                           => retain_errors,
        auto_delete_on_idle                     => auto_delete_on_idle,
        requires_session                        => requires_session,
        forward_to                              => forward_to,
        forward_dead_lettered_messages_to       => forward_dead_lettered_messages_to,
        max_receive_rate                        => max_receive_rate,
        max_concurrent                          => max_concurrent,
        priority_ageing                         => priority_ageing,
        result_retention                        => result_retention,
        max_concurrent_per_group                => max_concurrent_per_group,
        max_receive_rate_per_group              => max_receive_rate_per_group,
        fair                                    => fair
        -- end
    );
    filter.topic_id   := known.id;
    filter.name       := '$Default';
    filter.created_at := pgqueue.clock();
    insert into pgqueue.subscription (queue_id, topic_id, name, created_at)
    values (filter.queue_id, known.id, subscription, filter.created_at);
    insert into pgqueue.rule select filter.*;
    return filter.queue_id;
end
$$;
