-- Shows dead letters without changing them, from `from_sequence_number` on.
-- Returns  one row per dead letter, by sequence number.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
create or replace function pgqueue.peek_dead_letters(
    queue text, max_messages integer default 1, from_sequence_number bigint default 0)
returns setof pgqueue.received_message
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue := pgqueue._find_queue(queue, 'RECEIVE');
begin
    perform pgqueue._check_bound(coalesce(max_messages, 0));
    perform pgqueue._use(source);
    return query
        select (pgqueue._dead_letter_as_received(dead_letter)).*
          from pgqueue._dead_letters_from(source.id, from_sequence_number) as dead_letter
         limit max_messages;
end
$$;
