-- Frees the slots of a queue with `max_concurrent`, but for those with the given locks. Slots before the first one that is
-- taken are not looked at any more. Where a lock that lasts keeps many rows behind it, the slots that are taken move to the end.
create or replace function pgqueue._free_slots(queue pgqueue.queue, numbers bigint[], tokens uuid[])
returns void
language plpgsql
set enable_hashjoin = off
set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    last  pgqueue.slot;
    first bigint;
    moved integer := 0;
begin
    select * into last from pgqueue._end_of_slots(queue.id);
    delete from pgqueue.slot
     where queue_id = queue.id and position >= last.first_position and position < last.position
       and (sequence_number, lock_token) not in (select number, token from unnest(numbers, tokens) as lock (number, token));
    if not found then
        return;
    end if;
    select min(position) into first from pgqueue._slots(queue.id);
    if last.position - first > 2 * queue.max_concurrent + 16 then
        update pgqueue.slot
           set position = last.position + placed.nth
          from (select position as place, row_number() over (order by position) as nth from pgqueue._slots(queue.id)) as placed
         where queue_id = queue.id and position = place;
        get diagnostics moved = row_count;
        first := last.position + 1;
    end if;
    update pgqueue.slot
       set position = last.position + moved + 1, first_position = coalesce(first, last.position + 1)
     where queue_id = queue.id and position = last.position;
end
$$;
