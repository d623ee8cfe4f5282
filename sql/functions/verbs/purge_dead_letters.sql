-- Deletes dead letters: those with these sequence numbers, with this reason, dead-lettered longer ago than `older_than`, and at
-- most `max_messages` of them, the oldest first. An argument that is null does not restrict the selection. There is no way back.
-- Returns  the sequence numbers, ascending.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the dead letters; skips those that open transactions hold, and those that are locked by a receiver.
create or replace function pgqueue.purge_dead_letters(
    queue            text,
    sequence_numbers bigint[] default null,
    reason           text     default null,
    older_than       interval default null,
    max_messages     integer  default null
)
returns setof bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue;
    places tid[];
    purged bigint[];
begin
    perform pgqueue._check_admin(queue);
    perform pgqueue._check_bound(max_messages);
    perform pgqueue._check_duration('older_than', older_than, even_zero => true);
    source := pgqueue._find_queue(queue, 'RECEIVE');
    places := pgqueue._lock_dead_letters_to_move(
        source, sequence_numbers, reason, pgqueue.clock() - older_than, null, max_messages);
    with gone as (
        delete from pgqueue.dead_letter where ctid = any (places) returning sequence_number)
    select coalesce(array_agg(sequence_number order by sequence_number), '{}') into purged from gone;
    perform pgqueue._forget_failures(source.id, purged);
    return query select unnest(purged);
end
$$;
