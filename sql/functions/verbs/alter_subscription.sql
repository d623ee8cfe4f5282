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
#variable_conflict use_column
declare
    altered   text;
    filter    pgqueue.rule;
    is_filter boolean := num_nonnulls(alter_subscription.correlation_filter, alter_subscription.json_path_filter) > 0;
begin
    perform pgqueue._check_admin(topic, 'topic');
    altered := pgqueue._find_subscription(topic, subscription);
    filter  := pgqueue._read_filter(
        alter_subscription.correlation_filter, alter_subscription.json_path_filter, alter_subscription.sql_filter,
        alter_subscription.set_properties);
    perform pgqueue.alter_queue(
        altered,
        -- generated rows: {all settings: $name | => alter_subscription.$name}
        lock_duration                           => alter_subscription.lock_duration,
        max_delivery_count                      => alter_subscription.max_delivery_count,
        max_message_size                        => alter_subscription.max_message_size,
        status                                  => alter_subscription.status,
        user_metadata                           => alter_subscription.user_metadata,
        default_message_time_to_live            => alter_subscription.default_message_time_to_live,
        dead_lettering_on_message_expiration    => alter_subscription.dead_lettering_on_message_expiration,
        requires_duplicate_detection            => alter_subscription.requires_duplicate_detection,
        duplicate_detection_history_time_window => alter_subscription.duplicate_detection_history_time_window,
        max_queue_length                        => alter_subscription.max_queue_length,
        retain_history                          => alter_subscription.retain_history,
        retain_errors                           => alter_subscription.retain_errors,
        auto_delete_on_idle                     => alter_subscription.auto_delete_on_idle,
        requires_session                        => alter_subscription.requires_session,
        forward_to                              => alter_subscription.forward_to,
        forward_dead_lettered_messages_to       => alter_subscription.forward_dead_lettered_messages_to,
        max_receive_rate                        => alter_subscription.max_receive_rate,
        max_concurrent                          => alter_subscription.max_concurrent,
        priority_ageing                         => alter_subscription.priority_ageing,
        result_retention                        => alter_subscription.result_retention,
        max_concurrent_per_group                => alter_subscription.max_concurrent_per_group,
        max_receive_rate_per_group              => alter_subscription.max_receive_rate_per_group,
        fair                                    => alter_subscription.fair
        -- end
    );
    if not is_filter and filter.set_properties is null then
        return;
    end if;
    update pgqueue.rule as former
       set (correlation_filter, json_path_filter, sql_filter, fields, equals, path) =
               (select (changed).correlation_filter, (changed).json_path_filter, (changed).sql_filter, (changed).fields,
                       (changed).equals, (changed).path
                  from (select case when is_filter then filter else former end as changed) as chosen),
           set_properties = case when filter.set_properties is null then former.set_properties else nullif(filter.set_properties, '{}') end
     where queue_id = (select id from pgqueue.queue where name = altered) and name = '$Default';
    if not found then
        perform pgqueue._refuse_unknown_rule(altered, '$Default');
    end if;
end
$$;
