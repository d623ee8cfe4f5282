-- Stores many messages in one statement: all or none. The arrays are parallel; a null array stands for nulls.
-- Returns  their sequence numbers, in the order given; for duplicates, what pgqueue.send returns.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ005 message too large, PQ007 invalid argument, PQ008 queue
--          full.
-- Locks    as pgqueue.send.
create or replace function pgqueue.send_batch(
    queue                   text,
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
    negate_duplicates       boolean       default false
)
returns setof bigint
language plpgsql
as $$
#variable_conflict use_column
declare
    target pgqueue.queue;
    xid    pg_catalog.xid8 := pg_current_xact_id();    -- before a number is drawn: the watermark depends on it
begin
    select * into target from pgqueue.queue where name = send_batch.queue;
    if not found then
        perform pgqueue._refuse_unknown_queue(queue);
    end if;
    if target.status = 'ACTIVE' and pg_catalog.num_nonnulls(target.max_message_size, target.max_queue_length) = 0
       and pg_catalog.num_nonnulls(binary_bodies, message_ids, correlation_ids, subjects, content_types, reply_tos,
                                   send_batch.application_properties, priorities, times_to_live, scheduled_enqueue_times) = 0
       and pg_catalog.array_position(bodies, null) is null then
        return query                     -- fast path: bodies alone, which saves unnesting many parallel arrays
            insert into pgqueue.message (sequence_number, position, enqueued_time, queue_id, lane, body, expires_at, time_to_live)
            select number, number, pgqueue.clock(), target.id, 1, body,
                   pgqueue.clock() + target.default_message_time_to_live, target.default_message_time_to_live
              from (select pg_catalog.nextval('pgqueue.sequence_number') as number, body
                      from pg_catalog.unnest(bodies) as body) as numbered
            returning sequence_number;
        if target.awaited_until > pgqueue.clock() then
            perform pgqueue._notify(target);
        end if;
    else
        return query
            select pg_catalog.unnest(pgqueue._send_any(
                target, bodies, binary_bodies, message_ids, correlation_ids, subjects, content_types, reply_tos,
                send_batch.application_properties, priorities, times_to_live, scheduled_enqueue_times, negate_duplicates));
    end if;
end
$$;
