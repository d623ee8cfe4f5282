-- The error of the fence: raises for the holder of a stale token, so that its transaction cannot commit.
-- Raises  PQ001 lock lost, PQ002 unknown queue, 40001 when an old snapshot hides the lock.
create or replace function pgqueue._refuse_lost_lock(queue text, sequence_number bigint)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if pgqueue._is_dead_letter_queue(queue) then
        perform pgqueue._refuse_old_snapshot(pgqueue._find_queue(pgqueue._dead_letters_of(queue)), sequence_number, is_dead => true);
    else
        perform pgqueue._refuse_old_snapshot(pgqueue._find_queue(queue), sequence_number, is_dead => false);
    end if;
    raise exception using
        errcode = 'PQ001',
        message = format('the lock on message %s of queue %I is lost', sequence_number, queue),
        detail  = 'The message was delivered again, settled or dead-lettered since this lock was taken, or the token is wrong.',
        hint    = 'Let this delivery go: roll back what was done for it.';
end
$$;
