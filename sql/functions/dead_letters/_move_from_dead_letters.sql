-- Moves dead letters whose rows are locked into the redelivery lanes of their priorities, in the order they were sent.
-- Their time to live starts anew.
-- Returns  their sequence numbers.
create or replace function pgqueue._move_from_dead_letters(places tid[])
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    perform pg_current_xact_id();        -- take a transaction id before drawing a number, as in pgqueue.send
    return query
        with gone as (
            delete from pgqueue.dead_letter where ctid = any (places) returning *
        ), ordered as materialized (
            select * from gone order by sequence_number)
        insert into pgqueue.message (
            sequence_number, position, enqueued_time, queue_id, lane, body, binary_body,
            message_id, correlation_id, subject, content_type, reply_to, application_properties, expires_at, time_to_live)
        select sequence_number, nextval('pgqueue.sequence_number'), enqueued_time, queue_id, lane, body, binary_body,
               message_id, correlation_id, subject, content_type, reply_to, application_properties,
               pgqueue.clock() + time_to_live, time_to_live
          from ordered
        returning sequence_number;
end
$$;
