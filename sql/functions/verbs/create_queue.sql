-- Creates a queue. A setting that is null gets its default: locks of 60 seconds, 10 deliveries, no limit of message
-- size, status ACTIVE, no time to live, no duplicate detection, no limit of queue length, no history.
-- Returns  the queue's id.
-- Raises   PQ003 queue already exists, PQ007 invalid argument.
-- Locks    nothing; waits for an open transaction that has created a queue of the same name.
create or replace function pgqueue.create_queue(
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
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    new_id integer;
begin
    perform pgqueue._check_name(queue);
    perform pgqueue._check_settings(
        lock_duration, max_delivery_count, max_message_size, status, default_message_time_to_live,
        duplicate_detection_history_time_window, max_queue_length, retain_history);
    insert into pgqueue.queue (
        name, lock_duration, max_delivery_count, max_message_size, status, user_metadata,
        default_message_time_to_live, dead_lettering_on_message_expiration, requires_duplicate_detection,
        duplicate_detection_history_time_window, max_queue_length, retain_history
    ) values (
        queue, coalesce(lock_duration, interval '60 seconds'), coalesce(max_delivery_count, 10),
        max_message_size, coalesce(status, 'ACTIVE'), user_metadata,
        default_message_time_to_live, coalesce(dead_lettering_on_message_expiration, false),
        coalesce(requires_duplicate_detection, false),
        coalesce(duplicate_detection_history_time_window, interval '10 minutes'), max_queue_length, retain_history
    )
        on conflict on constraint queue_name_is_taken do nothing
    returning id into new_id;
    if new_id is null then
        raise exception using
            errcode = 'PQ003',
            message = format('queue %I exists already', queue),
            hint    = 'Change its settings with pgqueue.alter_queue.';
    end if;
    perform pgqueue._create_lanes(new_id, 0);
    return new_id;
end
$$;
