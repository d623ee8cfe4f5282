-- Changes the settings of a queue; a setting that is null stays as it is. Optional settings are removed with 0:
-- `max_message_size`, `max_queue_length`, `default_message_time_to_live`, `retain_history`, `retain_errors`,
-- `auto_delete_on_idle`, `max_receive_rate`, `max_concurrent`, `priority_ageing` and `result_retention`; `forward_to` and
-- `forward_dead_lettered_messages_to` with ''; `user_metadata` with JSON null. Locks that are held and messages that were sent
-- keep their times, and a message keeps its log of errors until it fails again. `requires_session` and `fair` cannot be
-- changed.
-- Raises  PQ002 unknown queue, PQ007 invalid argument.
-- Locks   the queue's row, until the transaction ends: other changes to it wait, senders and receivers do not. Where
--         queues forward to is changed by one transaction after the other.
create or replace function pgqueue.alter_queue(
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
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgqueue._check_admin(queue);
    perform pgqueue._check_settings(
        -- generated: {all settings if holds: $or_removed}
        alter_queue.lock_duration, alter_queue.max_delivery_count, nullif(alter_queue.max_message_size, 0),
        alter_queue.status, nullif(alter_queue.default_message_time_to_live, interval '0'),
        alter_queue.duplicate_detection_history_time_window, nullif(alter_queue.max_queue_length, 0),
        nullif(alter_queue.retain_history, interval '0'), nullif(alter_queue.retain_errors, 0),
        nullif(alter_queue.auto_delete_on_idle, interval '0'), nullif(alter_queue.max_receive_rate, 0),
        nullif(alter_queue.max_concurrent, 0), nullif(alter_queue.priority_ageing, interval '0'),
        nullif(alter_queue.result_retention, interval '0'), nullif(alter_queue.max_concurrent_per_group, 0),
        nullif(alter_queue.max_receive_rate_per_group, 0)
        -- end
    );
    perform pgqueue._set_forwarding(queue, alter_queue.forward_to, alter_queue.forward_dead_lettered_messages_to);
    update pgqueue.queue
       set
           -- generated rows: {all settings if is_plain and is_alterable: $name = $altered},
           lock_duration = coalesce(alter_queue.lock_duration, lock_duration),
           max_delivery_count = coalesce(alter_queue.max_delivery_count, max_delivery_count),
           max_message_size = nullif(coalesce(alter_queue.max_message_size, max_message_size), 0),
           status = coalesce(alter_queue.status, status),
           user_metadata = nullif(coalesce(alter_queue.user_metadata, user_metadata), 'null'),
           default_message_time_to_live = nullif(coalesce(alter_queue.default_message_time_to_live, default_message_time_to_live), interval '0'),
           dead_lettering_on_message_expiration = coalesce(alter_queue.dead_lettering_on_message_expiration, dead_lettering_on_message_expiration),
           requires_duplicate_detection = coalesce(alter_queue.requires_duplicate_detection, requires_duplicate_detection),
           duplicate_detection_history_time_window = coalesce(alter_queue.duplicate_detection_history_time_window, duplicate_detection_history_time_window),
           max_queue_length = nullif(coalesce(alter_queue.max_queue_length, max_queue_length), 0),
           retain_history = nullif(coalesce(alter_queue.retain_history, retain_history), interval '0'),
           retain_errors = nullif(coalesce(alter_queue.retain_errors, retain_errors), 0),
           auto_delete_on_idle = nullif(coalesce(alter_queue.auto_delete_on_idle, auto_delete_on_idle), interval '0'),
           max_receive_rate = nullif(coalesce(alter_queue.max_receive_rate, max_receive_rate), 0),
           max_concurrent = nullif(coalesce(alter_queue.max_concurrent, max_concurrent), 0),
           priority_ageing = nullif(coalesce(alter_queue.priority_ageing, priority_ageing), interval '0'),
           result_retention = nullif(coalesce(alter_queue.result_retention, result_retention), interval '0'),
           max_concurrent_per_group = nullif(coalesce(alter_queue.max_concurrent_per_group, max_concurrent_per_group), 0),
           max_receive_rate_per_group = nullif(coalesce(alter_queue.max_receive_rate_per_group, max_receive_rate_per_group), 0),
           -- end
           records_settlements = has_batches or nullif(coalesce(alter_queue.retain_history, retain_history), interval '0') is not null
                                 or nullif(coalesce(alter_queue.result_retention, result_retention), interval '0') is not null,
           updated_at = pgqueue.clock()
     where name = alter_queue.queue;
    if not found then
        perform pgqueue._refuse_unknown_queue(queue);
    end if;
    perform pgqueue._refuse(
                'PQ007', format('%s must be that of the creation of the queue, not %s', setting, given),
                'Create another queue, and move the messages there with pgqueue.move_messages, or forward to it.')
       from pgqueue.queue
      cross join lateral (
            values ('requires_session', requires_session, alter_queue.requires_session), ('fair', fair, alter_queue.fair)
            ) as fixed (setting, was, given)
      where name = alter_queue.queue and was <> given;
    perform pgqueue._check_session_settings(queue);
    insert into pgqueue.queue_use (queue_id, used_at)        -- one that is there may be held by a sender
    select id, pgqueue.clock()
      from pgqueue.queue
     where name = alter_queue.queue and auto_delete_on_idle is not null
       and not exists (select from pgqueue.queue_use where queue_id = id);
    perform pgqueue._use(altered) from pgqueue.queue as altered where name = alter_queue.queue;
    perform pgqueue._create_limits(altered) from pgqueue.queue as altered where name = alter_queue.queue;
    perform pgqueue._announce_sessions(id, array(select session_id from pgqueue.waiting_session where queue_id = id))
       from pgqueue.queue
      where name = alter_queue.queue and fair
        and num_nonnulls(alter_queue.max_concurrent_per_group, alter_queue.max_receive_rate_per_group) > 0;
    perform pgqueue._notify(altered)
       from pgqueue.queue as altered
      where name = alter_queue.queue and awaited_until > pgqueue.clock();
end
$$;
