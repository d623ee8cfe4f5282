-- Raises  PQ020 session lock lost; 40001 when the lock is younger than the snapshot of this transaction.
create or replace function pgqueue._refuse_lost_session(queue pgqueue.queue, session_id text)
returns void
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
    perform from pgqueue.session
      where queue_id = queue.id and session_id = _refuse_lost_session.session_id
        for no key update skip locked;       -- at REPEATABLE READ this fails if the row has changed since the snapshot
    perform pgqueue._refuse(
        'PQ020', format('the lock on session %s of queue %I is lost', quote_nullable(_refuse_lost_session.session_id), queue.name),
        'Roll back the work, and accept the session again.',
        'Another consumer has accepted the session since, or it was released, or the token is wrong.');
end
$$;
