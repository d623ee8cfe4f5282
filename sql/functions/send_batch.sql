-- Stores many messages in one statement: all or none. The arrays run in parallel; one that is null stands for nulls.
-- Returns  their sequence numbers, in the order given.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ005 message too large, PQ007 invalid argument.
create or replace function pgqueue.send_batch(
    queue                  text,
    bodies                 jsonb[]   default null,
    binary_bodies          bytea[]   default null,
    message_ids            text[]    default null,
    correlation_ids        text[]    default null,
    subjects               text[]    default null,
    content_types          text[]    default null,
    reply_tos              text[]    default null,
    application_properties jsonb[]   default null,
    priorities             integer[] default null
)
returns setof bigint
language plpgsql
as $$
#variable_conflict use_column
declare
    target pgqueue.queue;
    xid    xid8          := pg_current_xact_id();      -- before a number is drawn: the watermark rests on it
begin
    select * into target from pgqueue.queue where name = send_batch.queue;
    if not found then
        perform pgqueue._refuse_unknown_queue(queue);
    end if;
    if target.status <> 'ACTIVE' or target.max_message_size is not null
       or binary_bodies is not null or priorities is not null or array_position(bodies, null) is not null then
        perform pgqueue._check_batch(target, bodies, binary_bodies, application_properties, priorities);
    end if;
    if num_nonnulls(binary_bodies, message_ids, correlation_ids, subjects, content_types, reply_tos,
                    send_batch.application_properties, priorities) = 0 then
        return query                     -- bodies alone, without the cost of unnesting nine arrays in parallel
            insert into pgqueue.message (sequence_number, position, enqueued_time, queue_id, lane, body)
            select number, number, pgqueue.clock(), target.id, 1, body
              from (select nextval('pgqueue.sequence_number') as number, body from unnest(bodies) as body) as numbered
            returning sequence_number;
    else
        return query
            insert into pgqueue.message (
                sequence_number, position, enqueued_time, queue_id, lane, body, binary_body,
                message_id, correlation_id, subject, content_type, reply_to, application_properties)
            select number, number, pgqueue.clock(), target.id, 2 * coalesce(priority, 0) + 1, body, binary_body,
                   message_id, correlation_id, subject, content_type, reply_to, properties
              from (select nextval('pgqueue.sequence_number') as number, given.*
                      from unnest(bodies, binary_bodies, message_ids, correlation_ids, subjects, content_types, reply_tos,
                                  send_batch.application_properties, priorities)
                           as given (body, binary_body, message_id, correlation_id, subject, content_type, reply_to,
                                     properties, priority)) as numbered
            returning sequence_number;
    end if;
    if target.awaited_until > pgqueue.clock() then
        perform pgqueue._ring(target);
    end if;
end
$$;
