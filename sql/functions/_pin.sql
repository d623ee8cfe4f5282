-- Where a locked message stands, its row locked until the transaction ends.
-- Raises  PQ001 lock lost, PQ002 unknown queue.
create or replace function pgqueue._pin(queue text, sequence_number bigint, lock_token uuid)
returns tid[]
language plpgsql
as $$
declare
    held tid[];
begin
    held := (pgqueue._hold(pgqueue._find_queue(queue), array[sequence_number], array[lock_token])).places;
    if held = '{}' then
        perform pgqueue._refuse_lost_lock(queue, sequence_number);
    end if;
    return held;
end
$$;
