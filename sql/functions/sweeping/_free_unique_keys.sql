-- Returns the rows of unique keys whose message is gone, at most so many, or all of them when null. They are locked, so that no
-- message takes a key meanwhile, unless `lock_rows` is false; those that a sender holds are skipped. The next call in this session of the
-- database goes on behind the last key.
create or replace function pgqueue._free_unique_keys(queue pgqueue.queue, max_records integer, lock_rows boolean default true)
returns table (place tid)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    memory constant text := 'pgqueue.keys_swept_' || queue.id;
    reached         text := '';
    known           record;
    found_rows      integer := 0;
begin
    if lock_rows then
        reached := coalesce(current_setting(memory, true), '');
    end if;
    for known in
        select ctid as row_place, unique_key, sequence_number
          from pgqueue.unique_key
         where queue_id = queue.id and unique_key > reached
         order by unique_key
    loop
        exit when found_rows >= max_records;
        reached := known.unique_key;
        continue when pgqueue._find_message(queue, known.sequence_number) <> '{}'
                   or exists (
                      select
                        from pgqueue.scheduled_message
                       where queue_id = queue.id and sequence_number between known.sequence_number and known.sequence_number
                       order by sequence_number);
        if lock_rows then
            perform from pgqueue.unique_key
              where ctid = known.row_place and sequence_number = known.sequence_number
                for update skip locked;
            continue when not found;
        end if;
        found_rows := found_rows + 1;
        place := known.row_place;
        return next;
    end loop;
    if lock_rows then
        perform set_config(memory, case when found_rows >= max_records then reached else '' end, false);
    end if;
end
$$;
