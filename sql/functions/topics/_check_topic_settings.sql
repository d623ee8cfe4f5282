-- Checks the settings passed to create_topic and alter_topic; a null setting was not given.
-- Raises  PQ007 invalid argument.
create or replace function pgqueue._check_topic_settings(
    status text, default_message_time_to_live interval, duplicate_detection_history_time_window interval)
returns void
language plpgsql
as $$
begin
    if status not in ('ACTIVE', 'DISABLED', 'SEND_DISABLED') then
        perform pgqueue._refuse_argument('status', 'ACTIVE, DISABLED or SEND_DISABLED', quote_literal(status));
    end if;
    perform pgqueue._check_settings(
        -- generated: {all settings if holds: $of_topics}
        null, null, null, status, default_message_time_to_live, duplicate_detection_history_time_window, null, null,
        null, null, null, null, null, null, null, null
        -- end
    );
end
$$;
