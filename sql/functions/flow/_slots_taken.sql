-- Returns how many slots of a queue with `max_concurrent` are taken, after freeing those of messages whose lock is over.
-- Settlements touch no slot: a slot is free when its token proves no lock any more. Where the time of a lock is over and no
-- transaction holds the message, the lock is lost here, as if another receiver had received the message: otherwise its holder
-- could renew it after the slot was given to another message.
create or replace function pgqueue._slots_taken(queue pgqueue.queue)
returns integer
language plpgsql
as $$
#variable_conflict use_column
declare
    moment  timestamptz := pgqueue.clock();
    numbers bigint[];
    tokens  uuid[];
    held    record;
    places  tid[];
begin
    select array_agg(sequence_number), array_agg(lock_token) into numbers, tokens from pgqueue._slots(queue.id);
    if numbers is null then
        return 0;
    end if;
    loop
        select coalesce(array_agg(sequence_number), '{}') as numbers, coalesce(array_agg(lock_token), '{}') as tokens,
               array_agg(sequence_number) filter (where is_over) as late_numbers,
               array_agg(lock_token) filter (where is_over) as late_tokens
          into held
          from (select sequence_number, lock_token, locked_until is null or locked_until <= moment as is_over
                  from pgqueue._find_by_token(queue, numbers, tokens)) as found;
        exit when held.late_numbers is null or places is not null;
        places := pgqueue._lock_unheld(queue, held.late_numbers, held.late_tokens);
        update pgqueue.message
           set lock_token = gen_random_uuid()
         where ctid = any (places) and (locked_until is null or locked_until <= moment);
    end loop;
    perform pgqueue._free_slots(queue, held.numbers, held.tokens);
    return cardinality(held.numbers);
end
$$;
