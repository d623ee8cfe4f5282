-- Creates a queue. A setting that is null gets its default: locks of 60 seconds, 10 deliveries, no limit of message
-- size, status ACTIVE, no time to live, no duplicate detection, no limit of queue length, no history, no log of errors,
-- never deleted on idle, no sessions, no forwarding, no limits of what is handed out, no ageing, no results.
-- Returns  the queue's id.
-- Raises   PQ002 unknown queue, of one to forward to; PQ003 queue already exists, PQ007 invalid argument, PQ041 topic already
--          exists.
-- Locks    nothing, but see pgqueue._set_forwarding; waits for an open transaction that has created a queue or a topic of the
--          same name.
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
declare
    new_id integer;
begin
    perform pgqueue._check_admin(queue);
    if queue is null or length(queue) > 260 or queue !~ '^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$' then
        perform pgqueue._refuse_argument(
            'the name of a queue',
            'at most 260 letters, digits, dots, underscores, hyphens and slashes, with a letter or digit at each end',
            quote_literal(queue));
    end if;
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
    if exists (select from pgqueue.topic where name = queue) then      -- after a topic of this name was waited for
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
