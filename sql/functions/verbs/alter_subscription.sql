-- Changes a subscription: the filter of its rule $Default, what that sets, and the settings of its queue, as pgqueue.alter_queue does.
-- A null changes nothing. A filter replaces the former one, of whichever kind; the correlation filter '{}' matches every message, and
-- '{}' removes `set_properties`. Messages that are in the subscription stay there.
-- Raises  PQ002 unknown queue, PQ007 invalid argument, PQ040 unknown topic, PQ043 unknown rule: it has been dropped.
-- Locks   the subscription and its queue's row, until the transaction ends: other changes wait, senders and receivers do not.
create or replace function pgqueue.alter_subscription(
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
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform pgqueue._check_admin(topic, 'topic');
    perform pgqueue.alter_queue(
        pgqueue._find_subscription(topic, subscription),
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
    if num_nonnulls(correlation_filter, json_path_filter, sql_filter, set_properties) > 0 then
        perform pgqueue.alter_rule(topic, subscription, '$Default', correlation_filter, json_path_filter, sql_filter, set_properties);
    end if;
end
$$;
