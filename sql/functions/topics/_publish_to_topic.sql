-- Stores messages in the subscriptions of a topic that have a matching rule: at once in those that take any message, in the others as
-- pgqueue.send does. The first statement sees one state of subscriptions and queues, and decides.
-- Returns  how many subscriptions get each message, in the order given, and the number in the topic of each that is scheduled, or of
--          the message that has its id already, if the topic detects duplicates.
-- Raises   PQ040 unknown topic, PQ042 no subscription, and what pgqueue.send_batch raises.
create or replace function pgqueue._publish_to_topic(
    topic                   text,
    -- generated rows: {body to scheduled_enqueue_time: $arrays | $type[]}, require_subscription | boolean,
    --     {from session_id: $arrays | $type[]},
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
    require_subscription    boolean,
    session_ids             text[],
    reply_to_session_ids    text[],
    tos                     text[],
    partition_keys          text[],
    unique_keys             text[],
    unique_scopes           text[],
    -- end
    out counts              integer[],
    out numbers             bigint[]
)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    known    pgqueue.topic;
    xid      xid8        := pg_current_xact_id();      -- before a number is drawn: the watermark depends on it
    moment   timestamptz := pgqueue.clock();
    size     integer     := coalesce(greatest(
        -- generated: {all: cardinality($given)}
        cardinality(bodies), cardinality(binary_bodies), cardinality(message_ids), cardinality(correlation_ids),
        cardinality(subjects), cardinality(content_types), cardinality(reply_tos),
        cardinality(_publish_to_topic.application_properties), cardinality(priorities), cardinality(times_to_live),
        cardinality(scheduled_enqueue_times), cardinality(session_ids), cardinality(reply_to_session_ids),
        cardinality(tos), cardinality(partition_keys), cardinality(unique_keys), cardinality(unique_scopes)
        -- end
    ), 0);
    drawn    bigint[];                                 -- a number in the topic for each message, if any is needed
    known_as bigint[];                                 -- for each message its number, or that of the earlier one with its id
    remember pgqueue.queue;                            -- stands for the topic where ids are remembered
    awaited  integer[];
    others   pgqueue.queue[];
    target   pgqueue.queue;                            -- one of the others
    places   bigint[];                                 -- of messages for the others; the arrays are parallel
    queues   integer[];
    altered  jsonb[];
    copies   bigint[];                                 -- the numbers in one of the others
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    select * into known from pgqueue.topic where name = _publish_to_topic.topic;
    if not found then
        perform pgqueue._refuse_unknown_topic(topic);
    end if;
    if not pgqueue._may_send(known.senders) then
        perform pgqueue._refuse_access('SEND', topic, 'topic');
    end if;
    if known.status <> 'ACTIVE' then
        perform pgqueue._refuse(
            'PQ004', format('topic %I has the status %s', known.name, known.status),
            'Set its status to ACTIVE with pgqueue.alter_topic.');
    end if;
    perform pgqueue._check_batch(
        -- generated: null, size, {all: $given}
        null, size, bodies, binary_bodies, message_ids, correlation_ids, subjects, content_types, reply_tos,
        _publish_to_topic.application_properties, priorities, times_to_live, scheduled_enqueue_times, session_ids,
        reply_to_session_ids, tos, partition_keys, unique_keys, unique_scopes
        -- end
    );
    if known.requires_duplicate_detection and message_ids is not null or num_nonnulls(variadic scheduled_enqueue_times) > 0 then
        drawn := array(select nextval('pgqueue.sequence_number') from generate_series(1, size));
        if known.requires_duplicate_detection then
            remember.id := -known.id;                  -- so that no queue has it
            remember.duplicate_detection_history_time_window := known.duplicate_detection_history_time_window;
            known_as := pgqueue._record_message_ids(remember, message_ids, drawn);
        end if;
    end if;
    bodies := coalesce(bodies, array_fill(null::jsonb, array[size]));     -- messages of bytes alone are matched, too
    with message as materialized (
        select *
          from unnest(
                      -- generated: {all: $given}
                      bodies, binary_bodies, message_ids, correlation_ids, subjects, content_types, reply_tos,
                      _publish_to_topic.application_properties, priorities, times_to_live, scheduled_enqueue_times,
                      session_ids, reply_to_session_ids, tos, partition_keys, unique_keys, unique_scopes
                      -- end
               ) with ordinality as given (
                      -- generated: {all}, nth
                      body, binary_body, message_id, correlation_id, subject, content_type, reply_to,
                      application_properties, priority, time_to_live, scheduled_enqueue_time, session_id,
                      reply_to_session_id, "to", partition_key, unique_key, unique_scope, nth
                      -- end
               )
    ), matched as materialized (
        select nth, queue_id, properties,
               least(target.default_message_time_to_live, known.default_message_time_to_live) as default_message_time_to_live,
               awaited_until > moment as is_awaited,
               bool_and(                             -- all messages of a queue in one way, which keeps their order
                   pgqueue._takes_plain_messages(target) and coalesce(priority, 0) = 0
                   and num_nonnulls(time_to_live, scheduled_enqueue_time, unique_key) = 0
                   and coalesce(pg_column_size(properties), 0) <= 65536
               ) over (partition by queue_id) as is_plain
          from pgqueue._matching_subscriptions(
                   -- generated: known.id, bodies, {message_id to application_properties: $given},
                   --     {from session_id if is_filterable: $given}
                   known.id, bodies, message_ids, correlation_ids, subjects, content_types, reply_tos,
                   _publish_to_topic.application_properties, session_ids, reply_to_session_ids, tos
                   -- end
               )
          join message using (nth)
          join pgqueue.queue as target on target.id = queue_id
         cross join lateral (
               select coalesce(application_properties || set_properties, set_properties, application_properties)) as merged (properties)
         where known_as is null or known_as[nth] = drawn[nth]
    ), numbered as materialized (                     -- once, in whatever order its rows are joined
        select nextval('pgqueue.sequence_number') as number, *
          from (select * from matched where is_plain order by nth, queue_id) as ordered
    ), stored as (
        insert into pgqueue.message (
            -- generated: sequence_number, position, enqueued_time, queue_id, lane, {body to application_properties},
            --     expires_at, time_to_live, {from session_id if is_kept}
            sequence_number, position, enqueued_time, queue_id, lane, body, binary_body, message_id, correlation_id,
            subject, content_type, reply_to, application_properties, expires_at, time_to_live, session_id,
            reply_to_session_id, "to", partition_key
            -- end
        )
        select
               -- generated: number, number, moment, queue_id, 1, {body to application_properties: $alias}, moment +
               --     default_message_time_to_live, default_message_time_to_live, {from session_id if is_kept}
               number, number, moment, queue_id, 1, body, binary_body, message_id, correlation_id, subject,
               content_type, reply_to, properties, moment + default_message_time_to_live, default_message_time_to_live,
               session_id, reply_to_session_id, "to", partition_key
               -- end
          from numbered
          join message using (nth)
    )
    select array(select count(queue_id) from generate_series(1, size) as nth left join matched using (nth) group by nth order by nth),
           array(select distinct queue_id from matched where is_plain and is_awaited),
           array(select target from pgqueue.queue as target where id in (select queue_id from matched where not is_plain) order by id),
           array(select nth from matched where not is_plain order by nth, queue_id),
           array(select queue_id from matched where not is_plain order by nth, queue_id),
           array(select properties from matched where not is_plain order by nth, queue_id)
      into counts, awaited, others, places, queues, altered;
    if require_subscription and 0 = any (counts) then
        perform pgqueue._refuse(
                    'PQ042', format('no subscription of topic %I matches %s', known.name,
                                    case when size = 1 then 'the message' else format('message %s', nth) end),
                    'Nothing was stored. Look at the filters in pgqueue.subscriptions.')
           from unnest(counts) with ordinality as sent (count, nth)
          where count = 0 and (known_as is null or known_as[nth] = drawn[nth])
          order by nth
          limit 1;
    end if;
    perform pgqueue._notify(target) from pgqueue.queue as target where id = any (awaited);
    if known.default_message_time_to_live is not null then
        times_to_live := array(select least(times_to_live[nth], known.default_message_time_to_live) from generate_series(1, size) as nth);
    end if;
    foreach target in array others loop
        if target.auto_delete_on_idle is not null then       -- deleted meanwhile, like any other that is being dropped
            perform from pgqueue.queue_use where queue_id = target.id for key share;
            continue when not found;
        end if;
        copies := pgqueue._send_any(
            target,
            -- generated: {body to reply_to: array_agg($arrays[place])}, array_agg(properties),
            --     array_agg(coalesce(priorities[place], 0)),
            --     {time_to_live to scheduled_enqueue_time: array_agg($arrays[place])}, negate_duplicates => true,
            --     {from session_id: $arrays => array_agg($arrays[place])},
            array_agg(bodies[place]), array_agg(binary_bodies[place]), array_agg(message_ids[place]),
            array_agg(correlation_ids[place]), array_agg(subjects[place]), array_agg(content_types[place]),
            array_agg(reply_tos[place]), array_agg(properties), array_agg(coalesce(priorities[place], 0)),
            array_agg(times_to_live[place]), array_agg(scheduled_enqueue_times[place]), negate_duplicates => true,
            session_ids => array_agg(session_ids[place]),
            reply_to_session_ids => array_agg(reply_to_session_ids[place]), tos => array_agg(tos[place]),
            partition_keys => array_agg(partition_keys[place]), unique_keys => array_agg(unique_keys[place]),
            unique_scopes => array_agg(unique_scopes[place]),
            -- end
            labels => array_agg(case when size = 1 then 'the message' else format('message %s', place) end))
           from (select place, properties
                   from unnest(places, queues, altered) as routed (place, queue_id, properties)
                  where queue_id = target.id
                  order by place) as routed;
        if drawn is not null then
            insert into pgqueue.scheduled_on_topic (topic_id, sequence_number, queue_id, copy, scheduled_enqueue_time)
            select known.id, drawn[place], target.id, abs(copy), scheduled_enqueue_times[place]
              from unnest(array(select place from unnest(places, queues) as routed (place, queue_id) where queue_id = target.id order by place),
                          copies) as sent (place, copy)
             where scheduled_enqueue_times[place] > moment;
        end if;
    end loop;
    if drawn is not null then
        insert into pgqueue.scheduled_on_topic (topic_id, sequence_number, queue_id, scheduled_enqueue_time)
        select known.id, drawn[nth], 0, scheduled_enqueue_times[nth]
          from generate_series(1, size) as nth
         where scheduled_enqueue_times[nth] > moment and (known_as is null or known_as[nth] = drawn[nth]);
        numbers := array(
            select case when scheduled_enqueue_times[nth] > moment then coalesce(known_as[nth], drawn[nth]) end
              from generate_series(1, size) as nth
             order by nth);
    end if;
end
$$;
