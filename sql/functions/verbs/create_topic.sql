-- Creates a topic: what is sent to it is stored in each of its subscriptions whose filter matches. See
-- pgqueue.create_subscription. A setting that is null gets its default: status ACTIVE, no time to live, no duplicate
-- detection. Only what is sent to the topic itself is concerned; the subscriptions have settings of their own.
-- Returns  the topic's id.
-- Raises   PQ003 queue already exists, PQ007 invalid argument, PQ041 topic already exists.
-- Locks    nothing; waits for an open transaction that has created a topic or a queue of the same name.
create or replace function pgqueue.create_topic(
    topic                                   text,
    -- generated rows: {all settings if is_of_topics: $name | $type | default null}
    status                                  text     default null,
    user_metadata                           jsonb    default null,
    default_message_time_to_live            interval default null,
    requires_duplicate_detection            boolean  default null,
    duplicate_detection_history_time_window interval default null
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
    perform pgqueue._check_admin(topic, 'topic');
    perform pgqueue._check_name('topic', topic);
    perform pgqueue._check_topic_settings(status, default_message_time_to_live, duplicate_detection_history_time_window);
    perform pgqueue._repair_ids('pgqueue.topic');
    insert into pgqueue.topic (
        -- generated: name, created_at, {all settings if is_of_topics}
        name, created_at, status, user_metadata, default_message_time_to_live, requires_duplicate_detection,
        duplicate_detection_history_time_window
        -- end
    ) values (
        -- generated: topic, pgqueue.clock(), {all settings if is_of_topics: $or_default}
        topic, pgqueue.clock(), coalesce(status, 'ACTIVE'), user_metadata, default_message_time_to_live,
        coalesce(requires_duplicate_detection, false),
        coalesce(duplicate_detection_history_time_window, interval '10 minutes')
        -- end
    )
        on conflict on constraint topic_name_is_taken do nothing
    returning id into new_id;
    if new_id is null then
        perform pgqueue._refuse(
            'PQ041', format('topic %I exists already', topic),
            'Change its settings with pgqueue.alter_topic.');
    end if;
    -- For a moment it is a queue, too: that waits for an open transaction which creates one, and one that comes later waits for this.
    insert into pgqueue.queue (id, name) overriding system value values (-new_id, topic)
        on conflict on constraint queue_name_is_taken do nothing;
    if not found then
        perform pgqueue._refuse(
            'PQ003', format('%I is a queue, and cannot be a topic, too', topic),
            'Choose another name.');
    end if;
    delete from pgqueue.queue where id = -new_id;
    return new_id;
end
$$;
