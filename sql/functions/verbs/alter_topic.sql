-- Changes the settings of a topic; a setting that is null stays as it is. `default_message_time_to_live` is removed with 0,
-- `user_metadata` with JSON null. Messages that were sent keep their times.
-- Raises  PQ007 invalid argument, PQ040 unknown topic.
-- Locks   the topic's row, until the transaction ends: other changes to it wait, senders do not.
create or replace function pgqueue.alter_topic(
    topic                                   text,
    -- generated rows: {all settings if is_of_topics: $name | $type | default null}
    status                                  text     default null,
    user_metadata                           jsonb    default null,
    default_message_time_to_live            interval default null,
    requires_duplicate_detection            boolean  default null,
    duplicate_detection_history_time_window interval default null
    -- end
)
returns void
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform pgqueue._check_admin(topic, 'topic');
    perform pgqueue._check_topic_settings(
        alter_topic.status, nullif(alter_topic.default_message_time_to_live, interval '0'), alter_topic.duplicate_detection_history_time_window);
    update pgqueue.topic
       set
           -- generated rows: {all settings if is_of_topics: $name = $altered}
           status = coalesce(alter_topic.status, status),
           user_metadata = nullif(coalesce(alter_topic.user_metadata, user_metadata), 'null'),
           default_message_time_to_live = nullif(coalesce(alter_topic.default_message_time_to_live, default_message_time_to_live), interval '0'),
           requires_duplicate_detection = coalesce(alter_topic.requires_duplicate_detection, requires_duplicate_detection),
           duplicate_detection_history_time_window = coalesce(alter_topic.duplicate_detection_history_time_window, duplicate_detection_history_time_window)
           -- end
     where name = alter_topic.topic;
    if not found then
        perform pgqueue._refuse_unknown_topic(alter_topic.topic);
    end if;
end
$$;
