-- Returns which messages, by their places in the arrays, match a rule of which subscriptions of a topic, and the properties to set: if
-- several rules set the same property, that of the last rule by name.
--
-- Correlation filters that name the same fields are found together: the message's values of these fields are looked up
-- in an index. So a message costs one look-up for each set of fields that some filter names, however many subscriptions
-- have such a filter. JSON paths are evaluated one by one.
--
-- It is stable, so it sees the rules as the calling statement sees their queues.
create or replace function pgqueue._matching_subscriptions(
    topic_id               integer,
    -- generated rows: bodies | jsonb[], {message_id to reply_to: $arrays | $type[]}, application_properties | jsonb[],
    --     {from session_id if is_filterable: $arrays | $type[]}
    bodies                 jsonb[],
    message_ids            text[],
    correlation_ids        text[],
    subjects               text[],
    content_types          text[],
    reply_tos              text[],
    application_properties jsonb[],
    session_ids            text[],
    reply_to_session_ids   text[],
    tos                    text[]
    -- end
)
returns table (nth bigint, queue_id integer, set_properties jsonb)
language plpgsql stable
set enable_hashjoin = off
as $$
#variable_conflict use_column
begin
    return query
        with recursive message as materialized (
            select nth, body, properties,
                   jsonb_build_object(
                       -- generated: {all if is_filterable: '$key', $name}
                       'message_id', message_id, 'correlation_id', correlation_id, 'subject', subject,
                       'content_type', content_type, 'reply_to', reply_to, 'session_id', session_id,
                       'reply_to_session_id', reply_to_session_id, 'to', "to"
                       -- end
                   ) as fields
              from unnest(
                          -- generated: bodies, {message_id to application_properties: $given},
                          --     {from session_id if is_filterable: $given}
                          bodies, message_ids, correlation_ids, subjects, content_types, reply_tos,
                          _matching_subscriptions.application_properties, session_ids, reply_to_session_ids, tos
                          -- end
                   ) with ordinality as given (
                          -- generated: body, {message_id to application_properties: $alias},
                          --     {from session_id if is_filterable: $alias},
                          body, message_id, correlation_id, subject, content_type, reply_to, properties, session_id,
                          reply_to_session_id, "to",
                          -- end
                          nth)
        ), shape (fields) as (
            (select fields
               from pgqueue.rule
              where topic_id = _matching_subscriptions.topic_id and equals is not null
              order by fields
              limit 1)
             union all
            select (select fields
                      from pgqueue.rule as further
                     where topic_id = _matching_subscriptions.topic_id and equals is not null and further.fields > shape.fields
                     order by fields
                     limit 1)
              from shape
             where shape.fields is not null
        ), document as materialized (            -- for JSON paths only: a body may be large
            select nth, jsonb_strip_nulls(fields)          -- without what the message has not
                        || case when properties is null then '{}' else jsonb_build_object('application_properties', properties) end
                        || case when body is null then '{}' else jsonb_build_object('body', body) end as document
              from message
             where exists (select from pgqueue.rule where topic_id = _matching_subscriptions.topic_id and path is not null)
        )
        select nth, queue_id, pgqueue._merge(array_agg(set_properties order by name collate "C") filter (where set_properties is not null))
          from (select nth, queue_id, name, set_properties
                  from message
                 cross join shape
                 cross join lateral (
                       select coalesce(jsonb_object_agg(field, coalesce(message.fields -> field,
                                  properties -> substr(field, length('application_properties.') + 1))), '{}') as has
                         from unnest(shape.fields) as field) as looked_up
                 cross join lateral (
                       select queue_id, name, set_properties
                         from pgqueue.rule
                        where topic_id = _matching_subscriptions.topic_id and rule.fields = shape.fields
                          and jsonb_hash_extended(equals, 0) = jsonb_hash_extended(has, 0) and equals = has
                       offset 0) as found                -- one look-up with all that is known, not a join
                 union all
                select nth, queue_id, name, set_properties
                  from document
                  join pgqueue.rule on topic_id = _matching_subscriptions.topic_id and path is not null
                 where pgqueue._satisfies(document, path)) as matching
         group by nth, queue_id;
end
$$;
