-- Returns the columns that a staged message may have, with their types.
create or replace function pgqueue._staged_types()
returns table (name text, type text)
language sql immutable
as $$
    values
        -- generated: {all if is_staged: ('$key', '$type')}
        ('body', 'jsonb'), ('binary_body', 'bytea'), ('message_id', 'text'), ('correlation_id', 'text'),
        ('subject', 'text'), ('content_type', 'text'), ('reply_to', 'text'), ('application_properties', 'jsonb'),
        ('priority', 'integer'), ('time_to_live', 'interval'), ('scheduled_enqueue_time', 'timestamptz'),
        ('reply_to_session_id', 'text'), ('to', 'text'), ('partition_key', 'text')
        -- end
$$;
