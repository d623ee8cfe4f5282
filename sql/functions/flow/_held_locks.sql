-- Keeps of these locks those that are held. Where the time of a lock is over and no transaction holds the message, the lock is lost
-- here, as if another receiver had received the message: otherwise its holder could renew it after its slot was given to
-- another message.
-- Returns  the locks that are held, and when the first of them ends.
create or replace function pgqueue._held_locks(
    queue pgqueue.queue, inout numbers bigint[], inout tokens uuid[], out until timestamptz)
language plpgsql
as $$
#variable_conflict use_column
declare
    moment timestamptz := pgqueue.clock();
    held   record;
    places tid[];
begin
    loop
        select coalesce(array_agg(sequence_number), '{}') as numbers, coalesce(array_agg(lock_token), '{}') as tokens,
               min(locked_until) as until,
               array_agg(sequence_number) filter (where is_over) as late_numbers,
               array_agg(lock_token) filter (where is_over) as late_tokens
          into held
          from (select sequence_number, lock_token, locked_until, locked_until is null or locked_until <= moment as is_over
                  from pgqueue._find_by_token(queue, _held_locks.numbers, _held_locks.tokens)) as found;
        exit when held.late_numbers is null or places is not null;
        places := pgqueue._lock_unheld(queue, held.late_numbers, held.late_tokens);
        update pgqueue.message
           set lock_token = gen_random_uuid()
         where ctid = any (places) and (locked_until is null or locked_until <= moment);
    end loop;
    _held_locks.numbers := held.numbers;
    _held_locks.tokens  := held.tokens;
    _held_locks.until   := held.until;
end
$$;
