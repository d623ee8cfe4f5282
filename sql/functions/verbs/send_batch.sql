-- Stores many messages in one statement: all or none. The arrays are parallel; a null array stands for nulls.
-- Returns  their sequence numbers, in the order given; for duplicates, what pgqueue.send returns.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ005 message too large, PQ007 invalid argument, PQ008 queue
--          full, PQ012 duplicate message.
-- Locks    as pgqueue.send.
create or replace function pgqueue.send_batch(
    queue                   text,
    -- generated rows: {body to scheduled_enqueue_time: $arrays | $type[] | default null}, negate_duplicates | boolean |
    --     default false, {from session_id: $arrays | $type[] | default null}, on_conflict | text | default 'ignore'
    bodies                  jsonb[]       default null,
    binary_bodies           bytea[]       default null,
    message_ids             text[]        default null,
    correlation_ids         text[]        default null,
    subjects                text[]        default null,
    content_types           text[]        default null,
    reply_tos               text[]        default null,
    application_properties  jsonb[]       default null,
    priorities              integer[]     default null,
    times_to_live           interval[]    default null,
    scheduled_enqueue_times timestamptz[] default null,
    negate_duplicates       boolean       default false,
    session_ids             text[]        default null,
    reply_to_session_ids    text[]        default null,
    tos                     text[]        default null,
    partition_keys          text[]        default null,
    unique_keys             text[]        default null,
    unique_scopes           text[]        default null,
    on_conflict             text          default 'ignore'
    -- end
)
returns setof bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    target pgqueue.queue;
    xid    xid8 := pg_current_xact_id();    -- before a number is drawn: the watermark depends on it
begin
    unlisten pgqueue_maintenance;            -- refused where PostgreSQL runs others' functions for a superuser: see ADR 43
    select * into target from pgqueue.queue where name = send_batch.queue;
    if target.status = 'ACTIVE' and not target.requires_session and not target.fair and pgqueue._may_send(target.senders)
       and num_nonnulls(
           target.max_message_size, target.max_queue_length, target.auto_delete_on_idle, target.forward_to,
           -- generated: {from binary_body: $given}
           binary_bodies, message_ids, correlation_ids, subjects, content_types, reply_tos,
           send_batch.application_properties, priorities, times_to_live, scheduled_enqueue_times, session_ids,
           reply_to_session_ids, tos, partition_keys, unique_keys, unique_scopes
           -- end
           ) = 0
       and num_nulls(variadic bodies) = 0 then
        return query                     -- fast path: bodies alone, which saves unnesting many parallel arrays
            insert into pgqueue.message (sequence_number, position, enqueued_time, queue_id, lane, body, expires_at, time_to_live)
            select number, number, moment, target.id, 1, body,
                   moment + target.default_message_time_to_live, target.default_message_time_to_live
              from (select nextval('pgqueue.sequence_number') as number, pgqueue.clock() as moment, body
                      from unnest(bodies) as body) as numbered
            returning sequence_number;
        if target.awaited_until > pgqueue.clock() then
            perform pgqueue._notify(target);
        end if;
    elsif target.id is null then
        perform pgqueue._refuse_unknown_queue(queue);
    elsif not pgqueue._may_send(target.senders) then
        perform pgqueue._refuse_access('SEND', queue);
    else
        return query
            select unnest(pgqueue._send_any(
                -- generated: target, {body to scheduled_enqueue_time: $given}, negate_duplicates,
                --     {from session_id: $given}, on_conflict => on_conflict
                target, bodies, binary_bodies, message_ids, correlation_ids, subjects, content_types, reply_tos,
                send_batch.application_properties, priorities, times_to_live, scheduled_enqueue_times,
                negate_duplicates, session_ids, reply_to_session_ids, tos, partition_keys, unique_keys, unique_scopes,
                on_conflict => on_conflict
                -- end
            ));
    end if;
end
$$;
