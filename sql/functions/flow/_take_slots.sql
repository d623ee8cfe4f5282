-- Records that messages of a queue with `max_concurrent` take slots, at the end of those that were taken before.
create or replace function pgqueue._take_slots(queue pgqueue.queue, places tid[], lock_token uuid, moment timestamptz)
returns void
language plpgsql
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    last pgqueue.slot;
begin
    select * into last from pgqueue._end_of_slots(queue.id);
    update pgqueue.slot
       set position = last.position + cardinality(places)
     where queue_id = queue.id and position = last.position;
    insert into pgqueue.slot (queue_id, position, sequence_number, lock_token, taken_at)
    select queue.id, last.position - 1 + row_number() over (), sequence_number, _take_slots.lock_token, moment
      from pgqueue.message
     where ctid = any (places);
end
$$;
