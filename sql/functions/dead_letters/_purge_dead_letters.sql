-- Deletes dead letters, the oldest first, at most `max_messages` or all when null.
-- Returns  how many were deleted.
create or replace function pgqueue._purge_dead_letters(queue pgqueue.queue, max_messages integer)
returns bigint
language plpgsql
as $$
#variable_conflict use_column
declare
    places tid[] := pgqueue._lock_dead_letters_to_move(queue, null, null, null, null, max_messages, even_locked => true);
    gone   bigint[];
begin
    with purged as (
        delete from pgqueue.dead_letter where ctid = any (places) returning sequence_number)
    select coalesce(array_agg(sequence_number), '{}') into gone from purged;
    perform pgqueue._forget_failures(queue.id, gone);
    return cardinality(gone);
end
$$;
