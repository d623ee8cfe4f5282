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
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
    source pgqueue.queue;
    purged bigint[];
begin
    perform pgqueue._check_admin(queue);
    perform pgqueue._check_bound(max_messages);
    source := pgqueue._find_queue(queue, 'RECEIVE');
    with gone as (
        delete from pgqueue.dead_letter
         where ctid = any (array(
                   select ctid
                     from pgqueue.dead_letter
                    where queue_id = source.id
                      and (sequence_numbers is null or sequence_number = any (sequence_numbers))
                      and (reason is null or dead_letter_reason = reason)
                      and (older_than is null or dead_lettered_at <= moment - older_than)
                      and (locked_until is null or locked_until <= moment)
                    order by sequence_number
                    limit max_messages
                      for update skip locked))
        returning sequence_number)
    select coalesce(array_agg(sequence_number order by sequence_number), '{}') into purged from gone;
    perform pgqueue._forget_failures(source.id, purged);
    return query select unnest(purged);
end
$$;
