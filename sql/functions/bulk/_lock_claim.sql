-- Finds what a claim still holds, by its token, and locks the rows until the transaction ends; `free` ones only, not those
-- of open transactions. What had not been delivered before lies at its numbers; the rest, and what has come back since
-- because its lock ran out, is found through the index of those.
-- Returns  the places of the rows.
create or replace function pgqueue._lock_claim(queue pgqueue.queue, held pgqueue.claim, free boolean default false)
returns tid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    fresh    tid[];
    returned tid[];
begin
    if free then
        fresh := array(
            select ctid
              from pgqueue.message
             where queue_id = queue.id and lane = any (queue.fresh_lanes)
               and position >= lower(held.fresh) and position < upper(held.fresh) and lock_token = held.lock_token
               for update skip locked);
        returned := array(
            select ctid
              from pgqueue.message
             where queue_id = queue.id and lane % 2 = 0
               and sequence_number >= lower(held.numbers) and sequence_number < upper(held.numbers) and lock_token = held.lock_token
               for update skip locked);
    else
        fresh := array(
            select ctid
              from pgqueue.message
             where queue_id = queue.id and lane = any (queue.fresh_lanes)
               and position >= lower(held.fresh) and position < upper(held.fresh) and lock_token = held.lock_token
               for update);
        returned := array(
            select ctid
              from pgqueue.message
             where queue_id = queue.id and lane % 2 = 0
               and sequence_number >= lower(held.numbers) and sequence_number < upper(held.numbers) and lock_token = held.lock_token
               for update);
    end if;
    return fresh || returned;
end
$$;
