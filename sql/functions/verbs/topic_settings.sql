-- Returns the settings of topics, which apply before a message is stored in subscriptions: of those that the caller sees in
-- pgqueue.topics.
create or replace function pgqueue.topic_settings()
returns table (
    -- generated: name text, {all settings if is_of_topics: $name $type}
    name text, status text, user_metadata jsonb, default_message_time_to_live interval,
    requires_duplicate_detection boolean, duplicate_detection_history_time_window interval
    -- end
)
language sql stable
security definer set search_path = pg_catalog, pg_temp
as $$
    select topic.name,
           -- generated: {all settings if is_of_topics: topic.$name}
           topic.status, topic.user_metadata, topic.default_message_time_to_live, topic.requires_duplicate_detection,
           topic.duplicate_detection_history_time_window
           -- end
      from pgqueue.topic
      join pgqueue.topics using (name)
     order by topic.name
$$;
