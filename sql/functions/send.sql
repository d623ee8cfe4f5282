-- Stores one message.
-- Returns  its sequence number; numbers increase, with a gap for every send that was rolled back.
-- Raises   PQ002 unknown queue, PQ004 queue disabled, PQ005 message too large, PQ007 invalid argument.
-- Locks    nothing that another sender or a receiver waits for, except the first time ever that a
--          priority is used in a queue: then others who use it for the first time wait.
create or replace function pgqueue.send(
    queue                  text,
    body                   jsonb   default null,
    binary_body            bytea   default null,
    message_id             text    default null,
    correlation_id         text    default null,
    subject                text    default null,
    content_type           text    default null,
    reply_to               text    default null,
    application_properties jsonb   default null,
    priority               integer default 0
)
returns bigint
language plpgsql
as $$
#variable_conflict use_variable
declare
    target pgqueue.queue := pgqueue._find_queue(queue);
    xid    xid8          := pg_current_xact_id();      -- before a number is drawn: the watermark rests on it
    number bigint;
begin
    if target.status <> 'ACTIVE' or target.max_message_size is not null
       or priority is distinct from 0 or (body is null) = (binary_body is null) then
        perform pgqueue._check_message(target, body, binary_body, application_properties, priority);
    end if;
    number := nextval('pgqueue.sequence_number');
    insert into pgqueue.message (
        sequence_number, position, enqueued_time, queue_id, lane, body, binary_body,
        message_id, correlation_id, subject, content_type, reply_to, application_properties
    ) values (
        number, number, pgqueue.clock(), target.id, 2 * priority + 1, body, binary_body,
        message_id, correlation_id, subject, content_type, reply_to, application_properties
    );
    if target.awaited_until > pgqueue.clock() then
        perform pgqueue._ring(target);
    end if;
    return number;
end
$$;
