-- Moves a locked message to the dead letters of its queue, with a reason and a description. A `body` replaces the body
-- of the message, and `properties` are merged into its application properties. An `error` that made the delivery fail
-- is kept with it, as pgqueue.abandon does, and is the description if there is none.
-- Returns  the id of the transaction or savepoint, as pgqueue.complete does.
-- Raises   PQ001 lock lost, PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the message, until the transaction ends.
create or replace function pgqueue.dead_letter(
    queue           text,
    sequence_number bigint,
    lock_token      uuid,
    reason          text,
    description     text  default null,
    body            jsonb default null,
    properties      jsonb default null,
    error           jsonb default null
)
returns xid8
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    if dead_letter.body is not null then
        update pgqueue.message
           set body = dead_letter.body, binary_body = null
         where ctid = any (pgqueue._pin(pgqueue._find_queue(queue, 'RECEIVE'), dead_letter.sequence_number, dead_letter.lock_token));
    end if;
    perform from pgqueue.dead_letter_batch(
        queue, array[dead_letter.sequence_number], array[dead_letter.lock_token], reason, description, atomic => true,
        properties => properties, error => error);
    return pgqueue._settling_xid();
end
$$;
