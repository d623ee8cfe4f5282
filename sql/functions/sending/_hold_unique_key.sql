-- Lets a message hold a unique key, unless another one does. A unique index decides: when two transactions send the same key, the
-- second waits for the outcome of the first.
-- Returns  the number of the message that holds the key.
-- Locks    the key, and the message that holds it, until the transaction ends.
create or replace function pgqueue._hold_unique_key(queue_id integer, unique_key text, unique_scope text, number bigint)
returns bigint
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
#variable_conflict use_column
declare
    holder bigint;
begin
    loop
        insert into pgqueue.unique_key (queue_id, unique_key, sequence_number)
        values (_hold_unique_key.queue_id, _hold_unique_key.unique_key, number)
            on conflict on constraint unique_key_pkey do nothing;
        if found then
            return number;
        end if;
        select sequence_number into holder
          from pgqueue.unique_key as known
         where known.queue_id = _hold_unique_key.queue_id and known.unique_key = _hold_unique_key.unique_key
           for update;
        exit when found;                                     -- else a sweep has deleted it meanwhile
    end loop;
    if pgqueue._holds_unique_key(_hold_unique_key.queue_id, holder, unique_scope) then
        return holder;
    end if;
    update pgqueue.unique_key as known
       set sequence_number = number
     where known.queue_id = _hold_unique_key.queue_id and known.unique_key = _hold_unique_key.unique_key;
    return number;
end
$$;
