-- Deletes dead letters, the oldest first, at most `max_messages` or all when null.
-- Returns  how many were deleted.
create or replace function pgqueue._purge_dead_letters(queue pgqueue.queue, max_messages integer)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    purged bigint;
begin
    delete from pgqueue.dead_letter
     where ctid = any (array(
               select ctid
                 from pgqueue.dead_letter
                where queue_id = queue.id
                order by sequence_number, position
                limit max_messages
                  for update skip locked));
    get diagnostics purged = row_count;
    return purged;
end
$$;
