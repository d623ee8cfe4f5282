-- Changes the settings of a queue; a setting that is null stays as it is. Optional settings are removed with 0:
-- `max_message_size`, `max_queue_length`, `default_message_time_to_live` and `retain_history`; `user_metadata` is
-- removed with JSON null. Locks that are held and messages that were sent keep their times.
-- Raises  PQ002 unknown queue, PQ007 invalid argument.
-- Locks   the queue's row, until the transaction ends: other changes to it wait, senders and receivers do not.
create or replace function pgqueue.alter_queue(
    queue                                   text,
    lock_duration                           interval default null,
    max_delivery_count                      integer  default null,
    max_message_size                        bigint   default null,
    status                                  text     default null,
    user_metadata                           jsonb    default null,
    default_message_time_to_live            interval default null,
    dead_lettering_on_message_expiration    boolean  default null,
    requires_duplicate_detection            boolean  default null,
    duplicate_detection_history_time_window interval default null,
    max_queue_length                        bigint   default null,
    retain_history                          interval default null
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgqueue._check_settings(
        alter_queue.lock_duration, alter_queue.max_delivery_count, nullif(alter_queue.max_message_size, 0),
        alter_queue.status, nullif(alter_queue.default_message_time_to_live, interval '0'),
        alter_queue.duplicate_detection_history_time_window, nullif(alter_queue.max_queue_length, 0),
        nullif(alter_queue.retain_history, interval '0'));
    update pgqueue.queue
       set lock_duration      = coalesce(alter_queue.lock_duration, lock_duration),
           max_delivery_count = coalesce(alter_queue.max_delivery_count, max_delivery_count),
           max_message_size   = nullif(coalesce(alter_queue.max_message_size, max_message_size), 0),
           status             = coalesce(alter_queue.status, status),
           user_metadata      = nullif(coalesce(alter_queue.user_metadata, user_metadata), 'null'),
           max_queue_length   = nullif(coalesce(alter_queue.max_queue_length, max_queue_length), 0),
           retain_history     = nullif(coalesce(alter_queue.retain_history, retain_history), interval '0'),
           default_message_time_to_live =
               nullif(coalesce(alter_queue.default_message_time_to_live, default_message_time_to_live), interval '0'),
           dead_lettering_on_message_expiration =
               coalesce(alter_queue.dead_lettering_on_message_expiration, dead_lettering_on_message_expiration),
           requires_duplicate_detection =
               coalesce(alter_queue.requires_duplicate_detection, requires_duplicate_detection),
           duplicate_detection_history_time_window =
               coalesce(alter_queue.duplicate_detection_history_time_window, duplicate_detection_history_time_window),
           updated_at         = pgqueue.clock()
     where name = alter_queue.queue;
    if not found then
        perform pgqueue._refuse_unknown_queue(queue);
    end if;
    perform pgqueue._notify(altered)
       from pgqueue.queue as altered
      where name = alter_queue.queue and awaited_until > pgqueue.clock();
end
$$;
