-- Finds the messages that a claim still holds, by its token, and locks their rows until the transaction ends; with
-- `free`, it skips rows that open transactions hold. Messages that were fresh when they were claimed are found at their
-- numbers. The others, and those that came back since because their lock expired, are found through the index of
-- redelivered messages.
-- Returns  the ctids of the rows.
create or replace function pgqueue._lock_claim(queue pgqueue.queue, held pgqueue.claim, free boolean default false)
returns tid[]
language plpgsql
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
