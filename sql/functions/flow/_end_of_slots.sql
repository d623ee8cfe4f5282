-- Returns the row that ends the slots of a queue with `max_concurrent`. It holds the place of the first slot, and moves with every
-- change: a new place is a new key, so no scan walks over its old versions; and at REPEATABLE READ a receive fails when
-- others have taken or freed slots since its snapshot.
create or replace function pgqueue._end_of_slots(queue_id integer)
returns setof pgqueue.slot
language sql stable
as $$
    select *
      from pgqueue.slot
     where slot.queue_id = _end_of_slots.queue_id
     order by position desc
     limit 1
$$;
