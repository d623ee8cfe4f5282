-- Creates a queue. A setting that is null gets its default: locks of 60 seconds, 10 deliveries, no limit of message
-- size, status ACTIVE, no time to live, no duplicate detection, no limit of queue length, no history, no log of errors,
-- never deleted on idle, no sessions, no forwarding, no limits of what is handed out, no ageing, no results.
-- Returns  the queue's id.
-- Raises   PQ002 unknown queue, of one to forward to; PQ003 queue already exists, PQ007 invalid argument, PQ041 topic already
--          exists.
-- Locks    nothing, but see pgqueue._set_forwarding; waits for an open transaction that has created a queue or a topic of the
--          same name, and in one that is not READ COMMITTED for an open transaction that changes or drops such a topic.
create or replace function pgqueue.create_queue(
    queue                                   text,
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
begin
    perform pgqueue._check_admin(queue);
    perform pgqueue._check_name('queue', queue);
    return pgqueue._create_queue(
        queue,
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
end
$$;
