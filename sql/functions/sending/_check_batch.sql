-- Checks messages before any of them is stored, and creates the lanes of priorities that were never used before.
-- Raises  PQ004 queue disabled, PQ005 message too large, PQ007 invalid argument; if there are several messages, the
--         error names the position of the invalid one. For messages of a topic it names them by their `labels`, and the
--         queue that refuses one.
create or replace function pgqueue._check_batch(
    target                  pgqueue.queue,
    count                   integer,
    -- generated rows: {body to scheduled_enqueue_time: $arrays | $type[]},
    --     {from session_id: $arrays | $type[] | default null},
    bodies                  jsonb[],
    binary_bodies           bytea[],
    message_ids             text[],
    correlation_ids         text[],
    subjects                text[],
    content_types           text[],
    reply_tos               text[],
    application_properties  jsonb[],
    priorities              integer[],
    times_to_live           interval[],
    scheduled_enqueue_times timestamptz[],
    session_ids             text[]        default null,
    reply_to_session_ids    text[]        default null,
    tos                     text[]        default null,
    partition_keys          text[]        default null,
    unique_keys             text[]        default null,
    unique_scopes           text[]        default null,
    -- end
    labels                  text[] default null
)
returns void
language plpgsql
as $$
declare
    flaw record;
begin
    if target.status in ('DISABLED', 'SEND_DISABLED') then
        perform pgqueue._refuse_disabled(target);
    end if;
    select coalesce(label, case when count = 1 then 'the message' else format('message %s', nth) end) as message, rule.*, size into flaw
      from unnest(
                  -- generated: {all: $arrays},
                  bodies, binary_bodies, message_ids, correlation_ids, subjects, content_types, reply_tos,
                  application_properties, priorities, times_to_live, scheduled_enqueue_times, session_ids,
                  reply_to_session_ids, tos, partition_keys, unique_keys, unique_scopes,
                  -- end
                  labels)
           with ordinality as given (
                  -- generated: {all: $alias},
                  body, binary_body, message_id, correlation_id, subject, content_type, reply_to, properties, priority,
                  time_to_live, scheduled_enqueue_time, session_id, reply_to_session_id, "to", partition_key,
                  unique_key, unique_scope,
                  -- end
                  label, nth)
     cross join lateral (
           select case when target.max_message_size is not null
                       then octet_length(coalesce(binary_body, convert_to(body::text, 'UTF8')))
                            + coalesce(octet_length(properties::text), 0) end as size) as measured
     cross join lateral (values
           (null, 'one with either a body or a binary_body', case when body is null then 'one without' else 'both' end,
            (body is null) <> (binary_body is null)),
           ('priority', 'a whole number from -100 to 100', coalesce(priority::text, 'null'),
            priorities is null or coalesce(priority between -100 and 100, false)),
           ('priority', 'left out in a queue that requires sessions or is fair', priority::text,
            not (target.requires_session or target.fair) or priority is null or priority = 0),
           ('session_id', 'a text of 1 to 128 characters, because the queue requires sessions',
            coalesce('one of ' || length(session_id), 'null'),
            not target.requires_session or coalesce(length(session_id) between 1 and 128, false)),
           ('group_id (session_id)', 'a text of 1 to 128 characters, because the queue is fair',
            coalesce('one of ' || length(session_id), 'null'),
            not target.fair or coalesce(length(session_id) between 1 and 128, false)),
           -- generated rows:
           --     {from session_id if most: ('$key', 'at most $most characters', length($name)::text, length($name) <= $most)},
           ('session_id', 'at most 128 characters', length(session_id)::text, length(session_id) <= 128),
           ('reply_to_session_id', 'at most 128 characters', length(reply_to_session_id)::text, length(reply_to_session_id) <= 128),
           ('to', 'at most 260 characters', length("to")::text, length("to") <= 260),
           ('partition_key', 'at most 128 characters', length(partition_key)::text, length(partition_key) <= 128),
           ('unique_key', 'at most 128 characters', length(unique_key)::text, length(unique_key) <= 128),
           -- end
           ('time_to_live', 'positive and at most a hundred years', time_to_live::text,
            time_to_live > interval '0' and time_to_live <= interval '36500 days'),
           ('scheduled_enqueue_time', 'a time within the next hundred years', scheduled_enqueue_time::text,
            isfinite(scheduled_enqueue_time) and (scheduled_enqueue_time <= pgqueue.clock() + interval '100 years'
                                                   or scheduled_enqueue_time = pgqueue.batch_end())),
           -- generated rows:
           --     {message_id to reply_to if most: ('$key', 'at most $most characters', length($name)::text, length($name) <= $most)},
           ('message_id', 'at most 128 characters', length(message_id)::text, length(message_id) <= 128),
           ('correlation_id', 'at most 128 characters', length(correlation_id)::text, length(correlation_id) <= 128),
           ('subject', 'at most 260 characters', length(subject)::text, length(subject) <= 260),
           ('content_type', 'at most 260 characters', length(content_type)::text, length(content_type) <= 260),
           ('reply_to', 'at most 260 characters', length(reply_to)::text, length(reply_to) <= 260),
           -- end
           ('unique_key', 'a text of 1 to 128 characters', '''''', unique_key <> ''),
           ('unique_scope', '''waiting'' or ''unsettled''', unique_scope, unique_scope in ('waiting', 'unsettled')),
           ('partition_key', 'its session_id, where it has one', partition_key, partition_key = session_id),
           ('application_properties', 'a JSON object', jsonb_typeof(properties), jsonb_typeof(properties) = 'object'),
           ('application_properties', 'at most 65536 bytes as jsonb', pg_column_size(properties)::text,
            pg_column_size(properties) <= 65536),
           ('size', null, null, size <= target.max_message_size)
           ) as rule (field, must_be, was, holds)
     where not holds
     order by nth
     limit 1;
    if flaw.field = 'size' then
        perform pgqueue._refuse_size(target, flaw.message, flaw.size);
    elsif flaw.message is not null then
        perform pgqueue._refuse_argument(
            concat('the ' || flaw.field || ' of ', flaw.message,
                   case when labels is not null then format(' to queue %I', target.name) end),
            flaw.must_be, flaw.was);
    end if;
    perform pgqueue._create_lanes(target.id, priority)
       from (select distinct priority from unnest(priorities) as priority) as used
      where not (2 * priority + 1)::smallint = any (target.fresh_lanes);
end
$$;
