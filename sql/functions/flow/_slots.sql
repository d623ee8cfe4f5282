-- Returns the slots of a queue with `max_concurrent`, in the order in which they were taken. Some may be free: see
-- pgqueue._slots_taken.
create or replace function pgqueue._slots(queue_id integer)
returns setof pgqueue.slot
language sql stable
as $$
    select slot.*
      from pgqueue._end_of_slots(_slots.queue_id) as last
     cross join lateral (
           select *
             from pgqueue.slot
            where slot.queue_id = last.queue_id and slot.position >= last.first_position and slot.position < last.position) as slot
$$;
