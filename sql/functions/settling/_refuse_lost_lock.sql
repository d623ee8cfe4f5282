-- The error of the fence: raises for the holder of a stale token, so that its transaction cannot commit.
-- Raises  PQ001 lock lost, PQ002 unknown queue, PQ020 session lock lost, 40001 when an old snapshot hides the lock.
create or replace function pgqueue._refuse_lost_lock(queue text, sequence_number bigint)
returns void
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    source pgqueue.queue;
    lost   text;
begin
    if pgqueue._is_dead_letter_queue(queue) then
        perform pgqueue._refuse_old_snapshot(pgqueue._find_queue(pgqueue._dead_letters_of(queue), 'RECEIVE'), _refuse_lost_lock.sequence_number, is_dead => true);
    else
        source := pgqueue._find_queue(queue, 'RECEIVE');
        perform pgqueue._refuse_old_snapshot(source, _refuse_lost_lock.sequence_number, is_dead => false);
        select session_id into lost              -- it is still locked, so the session is not
          from pgqueue.message
         where queue_id = source.id and lane % 2 = 0 and sequence_number = _refuse_lost_lock.sequence_number
           and lock_token is not null and source.requires_session;
        if found then
            perform pgqueue._refuse_lost_session(source, lost);
        end if;
    end if;
    perform pgqueue._refuse(
        'PQ001', format('the lock on message %s of queue %I is lost', _refuse_lost_lock.sequence_number, queue),
        'Give this delivery up: roll back its work.',
        'The message was delivered again, settled or dead-lettered since this lock was taken, or the token is wrong.');
end
$$;
