-- Removes the newest row of a session among those that wait, if it has no messages; a later transaction
-- that finds another one removes that. A row that a sender holds stays, because its message may
-- come. Messages are looked for once more after the rows were locked, with a new snapshot, which sees what was committed by
-- any sender that held a row before. An older snapshot proves nothing.
--
-- A transaction must not lock a row FOR UPDATE that it has updated: senders that follow it to its new version would wait,
-- in spite of SKIP LOCKED.
-- Returns  whether the session has no messages.
-- Locks    the rows; skips those that others hold.
create or replace function pgqueue._forget_waiting(known pgqueue.session)
returns boolean
language plpgsql
set enable_sort = off
as $$
declare
    places tid[];
begin
    if pgqueue._next_delivery(known) is not null then
        return false;
    end if;
    places := array(
        select ctid
          from pgqueue.waiting_session
         where queue_id = known.queue_id and session_id between known.session_id and known.session_id
         order by session_id desc, changed_by desc   -- see pgqueue._announce_sessions
         limit 1
           for update skip locked);
    if pgqueue._next_delivery(known) is not null then
        return false;
    end if;
    if current_setting('transaction_isolation') = 'read committed' then
        delete from pgqueue.waiting_session where ctid = any (places);
    end if;
    return true;
end
$$;
