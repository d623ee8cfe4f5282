-- Deletes up to `max_messages` messages, all when null: first those that are ready, locked or deferred, then the
-- scheduled ones. Dead letters are deleted only under the name '<queue>/$deadletterqueue'. The holder of a deleted
-- message's lock has lost it.
-- Returns  how many were deleted.
-- Raises   PQ002 unknown queue, PQ007 invalid argument.
-- Locks    the messages; skips those that open transactions hold.
create or replace function pgqueue.purge_queue(queue text, max_messages integer default null)
returns bigint
language plpgsql
security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    source    pgqueue.queue;
    places    tid[];
    purged    bigint;
    scheduled bigint[];
    dead      bigint[];
begin
    perform pgqueue._check_admin(queue);
    perform pgqueue._check_bound(max_messages);
    if pgqueue._is_dead_letter_queue(queue) then
        source := pgqueue._find_queue(pgqueue._dead_letters_of(queue), 'RECEIVE');
        places := pgqueue._lock_dead_letters_to_move(source, null, null, null, null, max_messages, even_locked => true);
        with gone as (
            delete from pgqueue.dead_letter where ctid = any (places) returning sequence_number)
        select coalesce(array_agg(sequence_number), '{}') into dead from gone;
        perform pgqueue._forget_failures(source.id, dead);
        return cardinality(dead);
    end if;
    source := pgqueue._find_queue(queue, 'RECEIVE');
    if max_messages is null then
        places := array(select ctid from pgqueue.message where queue_id = source.id for update skip locked);
    else
        perform pgqueue._advance_cursors(source);            -- so that the next batch does not read what this one deletes
        perform pgqueue._pass_front(source.id, 'DEFERRED');
        places := array(
            select message.ctid
              from pgqueue._messages_of(source.id) as found
             cross join lateral (
                   select ctid
                     from pgqueue.message
                    where message.queue_id = found.queue_id and message.lane = found.lane and message.position = found.position
                    limit 1
                      for update skip locked) as message
             limit max_messages);
    end if;
    purged := pgqueue._delete_messages(source, places, 'PURGED');
    scheduled := pgqueue._delete_scheduled(source, array(
        select ctid
          from pgqueue.scheduled_message
         where queue_id = source.id
         order by scheduled_enqueue_time
         limit max_messages - purged
           for update skip locked), 'PURGED');
    if source.requires_session or source.fair then
        perform pgqueue._hasten_sessions(source.id);
    end if;
    return purged + cardinality(scheduled);
end
$$;
