-- Returns the settings of one queue, or of all queues when `queue` is null: of those that the caller may use or monitor.
-- Raises   PQ002 unknown queue, 42501 access denied.
create or replace function pgqueue.queue_settings(queue text default null)
returns table (
    -- generated: name text, {lock_duration to auto_delete_on_idle: $name $type}, {from forward_to: $name $type},
    name text, lock_duration interval, max_delivery_count integer, max_message_size bigint, status text,
    user_metadata jsonb, default_message_time_to_live interval, dead_lettering_on_message_expiration boolean,
    requires_duplicate_detection boolean, duplicate_detection_history_time_window interval, max_queue_length bigint,
    retain_history interval, retain_errors integer, auto_delete_on_idle interval, forward_to text,
    forward_dead_lettered_messages_to text, max_receive_rate double precision, max_concurrent integer,
    priority_ageing interval, result_retention interval, max_concurrent_per_group integer,
    max_receive_rate_per_group double precision, fair boolean,
    -- end
    paused_at timestamptz, created_at timestamptz, updated_at timestamptz, requires_session boolean)
language plpgsql stable
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgqueue._check_caller();
    if queue_settings.queue is not null then
        perform pgqueue._find_queue(queue_settings.queue, 'SETTINGS');
    end if;
    return query
        select name,
               -- generated: {lock_duration to auto_delete_on_idle},
               lock_duration, max_delivery_count, max_message_size, status, user_metadata, default_message_time_to_live,
               dead_lettering_on_message_expiration, requires_duplicate_detection,
               duplicate_detection_history_time_window, max_queue_length, retain_history, retain_errors,
               auto_delete_on_idle,
               -- end
               (select target.name from pgqueue.queue as target where target.id = known.forward_to),
               (select target.name from pgqueue.queue as target where target.id = known.forward_dead_lettered_messages_to),
               -- generated: {after forward_dead_lettered_messages_to},
               max_receive_rate, max_concurrent, priority_ageing, result_retention, max_concurrent_per_group,
               max_receive_rate_per_group, fair,
               -- end
               paused_at, created_at, updated_at, requires_session
          from pgqueue.queue as known
         where case when queue_settings.queue is null then pgqueue._permits('SETTINGS', known) else name = queue_settings.queue end
         order by known.name;
    if not found and exists (select from pgqueue.queue) then
        perform pgqueue._refuse_access('SETTINGS');
    end if;
end
$$;
